"""Commands in the pod of a driver: a real API server hands them to a kubelet's stand-in, which runs them.

The app's streams are those of an embedded log, as no broker is here.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.protocol.attempt import AttemptOrders
from holdfast.tasks.partitions import StreamPartition
from holdfast_cli.main import main
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.testing import TestDriver
from tests.api.admin import Admin
from tests.api.conftest import Site
from tests.api.kubelet_exec import KubeletExec, kubelet_exec
from tests.api.plane import Plane
from tests.api.test_life import ready
from tests.api.test_status import may
from tests.cli.conftest import Ran
from tests.engine.fed_tables import app, order, products
from tests.engine.test_offset_log import done, planned
from tests.waiting import patience, wait_until

PODS_EXEC = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]}
LOOKS = (
    {"apiGroups": ["holdfast.dev"], "resources": ["streamapps"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
)


@dataclass(frozen=True)
class Cluster:
    """A running app `ads`, whose pod has what an app `priced` has left."""

    site: Site
    exec: KubeletExec
    run: Callable[..., Ran]
    environment: dict[str, str]


def mounted(folder: Path, namespace: str) -> Path:
    """What the pod of the app's driver has: its directory, with two batches behind it."""
    tree, data = app("Partitioned"), folder / "data"
    with TestDriver(tree, data) as driver:
        driver.feed("products", products({"a": 1, "b": 2}))
        order(driver, "a")
        driver.run_until_idle()
    run = folder / "checkpoint" / namespace / "priced" / "1"
    run.parent.mkdir(parents=True)
    DataDir(data).app("priced").run("1").checkpoint.rename(run)
    planned(
        run / "query", 0, Offsets(1, positions={StreamPartition("orders", 0): 0, StreamPartition("products", 0): 1})
    )
    done(run / "query", 0)
    tree["spec"]["runtime"] = {"checkpoint": {"location": f"file://{folder}/checkpoint"}}
    (data / "app.json").write_text(json.dumps(tree))
    orders = AttemptOrders("priced", namespace, "u-1", "1", 1, "priced-assignment", "priced-report", {})
    (data / "attempt.json").write_text(orders.text())
    (data / "spark.json").write_text("{}")
    return data


@pytest.fixture
def cluster(
    plane: Plane, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Cluster]:
    directory = mounted(tmp_path, site.namespace)
    admin = str(plane.kubeconfig("admin"))

    def run(*line: str, user: str = "admin") -> Ran:
        monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig(user)))
        code = main([*line, "--namespace", site.namespace])
        return Ran(code, *capsys.readouterr())

    with kubelet_exec(plane, Admin(plane), directory, KUBECONFIG=admin) as kubelet:
        with site.operator():
            site.apply()
            ready(site)
        yield Cluster(site, kubelet, run, os.environ | {"KUBECONFIG": admin})


def test_streams_offsets_state_and_letters_are_shown_from_the_pod(cluster: Cluster, tmp_path: Path) -> None:
    streams = json.loads(cluster.run("streams", "ads", "-o", "json").out)["streams"]
    assert {one["name"]: one["records"] for one in streams} == {"products": 2, "orders": 1, "out": 1}
    tailed = cluster.run("tail", "ads", "orders", "--from-beginning", "--until-end", "-o", "json")
    assert (tailed.code, json.loads(tailed.out)["value"]) == (0, {"sku": "a", "n": 0})
    offsets = cluster.run("offsets", "ads", "-o", "json")
    assert (offsets.code, json.loads(offsets.out)["batch"]) == (0, 1)
    got = cluster.run("state", "get", "ads", "--table", "product", "--key", "b", "-o", "json")
    assert (got.code, json.loads(got.out)["price"]) == (0, 2)
    assert "as after its batch" in got.err
    letters = cluster.run("letters", "ads", "--group")
    assert (letters.code, letters.out) == (2, "")
    assert "deadLetter" in letters.err
    exported = cluster.run("state", "export", "ads", "--table", "product", "--to", str(tmp_path / "p.parquet"))
    assert (exported.code, "2 rows of product written" in exported.err) == (0, True)
    assert (tmp_path / "p.parquet").read_bytes()[:4] == b"PAR1"


def test_exit_codes_pass_through_and_no_file_is_left(cluster: Cluster, tmp_path: Path) -> None:
    wrong = cluster.run("tail", "ads", "ordres")
    assert wrong.code == 2
    assert "priced has no stream ordres; did you mean orders?" in wrong.err
    failed = cluster.run("state", "export", "ads", "--table", "no", "--to", str(tmp_path / "p.parquet"))
    assert failed.code == 2
    assert [one.name for one in tmp_path.iterdir() if "parquet" in one.name] == []


@pytest.mark.parametrize("signals", [signal.SIGINT, signal.SIGKILL])
def test_a_followed_stream_ends_with_whoever_follows(cluster: Cluster, signals: signal.Signals) -> None:
    line = ("tail", "ads", "orders", "--from-beginning", "-n", cluster.site.namespace)
    words = [sys.executable, "-c", "from holdfast_cli.main import entry; entry()", *line]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=cluster.environment, text=True) as tail:
        try:
            assert tail.stdout is not None
            assert tail.stdout.readline().startswith("orders/")
            (remote,) = cluster.exec.processes
            assert remote.poll() is None
            tail.send_signal(signals)
            assert tail.wait(patience(20)) == (0 if signals == signal.SIGINT else -signal.SIGKILL)
        finally:
            tail.kill()
    wait_until(lambda: remote.poll() is not None, 20, "the command in the pod has ended")


def test_who_may_view_may_not_run_commands_in_pods(cluster: Cluster, tmp_path: Path) -> None:
    may(cluster.site, "viewer", *LOOKS)
    ran = cluster.run("streams", "ads", user="viewer")
    assert ran.code == 2
    assert "pods/exec" in ran.err
    assert "ask whoever runs the cluster for the right" in ran.err
    ran = cluster.run("state", "ls", "ads", user="viewer")
    assert (ran.code, "with --checkpoint LOCATION" in ran.err) == (2, True)
    assert cluster.exec.commands == []
    checkpoint = f"file://{tmp_path}/checkpoint"
    ran = cluster.run("state", "ls", "ads", "--checkpoint", checkpoint, user="viewer")
    assert "pods/exec" not in ran.err


def test_who_may_exec_needs_nothing_more(cluster: Cluster) -> None:
    may(cluster.site, "keeper", *LOOKS, PODS_EXEC)
    assert cluster.run("streams", "ads", user="keeper").code == 0


def test_a_drained_app_is_named_with_its_cure(cluster: Cluster) -> None:
    with cluster.site.operator():
        path = f"/apis/holdfast.dev/v1alpha1/namespaces/{cluster.site.namespace}/streamapps/ads"
        cluster.site.admin.patch(path, {"spec": {"suspend": True}})
        wait_until(lambda: cluster.site.condition("Ready")[1] == "Suspended", 30, "it is drained")
    ran = cluster.run("offsets", "ads")
    assert ran.code == 2
    assert "has no driver that runs" in ran.err
    assert f"holdfast resume ads -n {cluster.site.namespace}" in ran.err
