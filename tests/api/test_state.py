"""`holdfast state --cluster`: what apps on a cluster remember, by a real API server and a bucket of a real store."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast_cli.main import main
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.testing import TestDriver
from tests.api.admin import APPS
from tests.api.conftest import Site
from tests.cli.conftest import Ran
from tests.engine.fed_tables import app, order, products
from tests.engine.file_tables import filed, put
from tests.s3.gateway import Bucket, Gateway

State = Callable[..., Ran]


@pytest.fixture
def state(site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> State:
    """Run `holdfast state` on an app of the test's namespace."""

    def run(action: str, *arguments: str, user: str = "admin") -> Ran:
        monkeypatch.setenv("KUBECONFIG", str(site.plane.kubeconfig(user)))
        code = main(["state", action, "priced", *arguments, "--cluster", "-n", site.namespace])
        return Ran(code, *capsys.readouterr())

    return run


def run_app(tree: dict[str, Any], folder: Path) -> Path:
    """What two batches of the app leave as durable copies."""
    with TestDriver(tree, folder) as driver:
        if any(stream["name"] == "products" for stream in tree["spec"]["streams"]):
            driver.feed("products", products({"a": 1, "b": 2}))
        order(driver, "a")
        driver.run_until_idle()
    return DataDir(folder).app("priced").run("1").durable


def carried(site: Site, tree: dict[str, Any], durable: Path, bucket: Bucket) -> None:
    """The app on the cluster, with these durable copies in its bucket."""
    tree["spec"]["runtime"] = {"checkpoint": {"location": bucket.location}, "sparkConf": bucket.conf}
    site.admin.create(APPS.format(site.namespace), tree)
    to = bucket.storage.below(site.namespace, "priced", "1", "state")
    for file in durable.rglob("*"):
        if file.is_file():
            to.below(*file.parent.relative_to(durable).parts).write(file.name, [file.read_bytes()])


@pytest.mark.parametrize("kind", ["Partitioned", "Broadcast", "files"])
def test_tables_of_an_app_are_read_from_its_bucket(
    site: Site, gateway: Gateway, state: State, tmp_path: Path, kind: str
) -> None:
    put(tmp_path / "files", {"a": 1, "b": 2})
    tree = filed(tmp_path / "files") if kind == "files" else app(kind)
    carried(site, tree, run_app(tree, tmp_path / "data"), gateway.bucket())

    ran = state("get", "--table", "product", "--key", "b", "-o", "json")
    assert [json.loads(line)["price"] for line in ran.out.splitlines()] == [2]
    assert "as after its batch" in ran.err
    ran = state("sql", "select max(price) as top from product", "-o", "json")
    assert (ran.code, [json.loads(line) for line in ran.out.splitlines()]) == (0, [{"top": 2}])
    listed = json.loads(state("ls", "-o", "json").out)
    assert {one["from"] for one in (*listed["tasks"], *listed["broadcast"])} == {"durable"}
    assert [one["name"] for one in listed["broadcast"]] == ([] if kind == "Partitioned" else ["product"])
    assert all(one["batch"] > 0 for one in listed["tasks"])


def test_local_state_of_the_same_name_is_not_read(
    site: Site, gateway: Gateway, state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = app("Partitioned")
    monkeypatch.chdir(tmp_path)
    run_app(tree, Path(".holdfast/priced"))
    carried(site, tree, tmp_path / "nothing", gateway.bucket())
    ran = state("ls")
    assert ran.code == 2
    assert "priced has no state of run 1: looked in s3a://" in ran.err


def test_a_folder_that_only_pods_mount_may_be_named_locally(site: Site, state: State, tmp_path: Path) -> None:
    tree = app("Partitioned")
    durable = run_app(tree, tmp_path / "data")
    tree["spec"]["runtime"] = {"checkpoint": {"location": "file:///checkpoints-of-pods"}}
    site.admin.create(APPS.format(site.namespace), tree)
    ran = state("ls")
    assert ran.code == 2
    assert "keeps its checkpoint in /checkpoints-of-pods, a folder that its pods mount and that is not here" in ran.err
    assert "--checkpoint file:///path" in ran.err
    mounted = tmp_path / "mounted" / site.namespace / "priced" / "1"
    mounted.mkdir(parents=True)
    durable.rename(mounted / "state")
    ran = state("get", "--table", "product", "--key", "a", "--checkpoint", f"file://{tmp_path}/mounted", "-o", "json")
    assert [json.loads(line)["price"] for line in ran.out.splitlines()] == [1]


def test_an_app_that_is_not_there_is_said(state: State) -> None:
    ran = state("ls")
    assert ran.code == 2
    assert "there is no StreamApp priced" in ran.err


def test_who_may_not_get_apps_learns_the_missing_right(site: Site, state: State) -> None:
    site.admin.create(APPS.format(site.namespace), app("Partitioned"))
    ran = state("ls", user="nobody")
    assert ran.code == 2
    assert "get streamapps.holdfast.dev" in ran.err


def test_a_checkpoint_is_of_an_app_on_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "ls", "app.yaml", "--checkpoint", "file:///mnt"]) == 2
    assert "--checkpoint is for an app on a cluster: add --cluster" in capsys.readouterr().err
