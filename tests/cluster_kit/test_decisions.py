"""What the kit decides without a cluster."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.api.programs import ETCD
from tests.cluster.base import mirrors
from tests.cluster.cluster import unreachable
from tests.cluster.components import sandbox, tags
from tests.cluster.config import MARK, NODES, kind_config, made_as
from tests.cluster.daemon import lacks
from tests.cluster.diagnosis import Container, busiest, containers
from tests.cluster.loading import full_name, holds
from tests.cluster.node_image import mark
from tests.cluster.nodes import whole

Tree = dict[str, Any]


def test_the_fingerprint_follows_what_goes_in_and_not_the_order(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    files = [tmp_path / "a", tmp_path / "b"]
    first = mark(tmp_path, files, [ETCD])
    assert mark(tmp_path, [*reversed(files), tmp_path], [ETCD]) == first
    changed = {first, mark(tmp_path, files, []), mark(tmp_path, files, [replace(ETCD, flags="")])}
    (tmp_path / "a").chmod(0o755)
    changed.add(mark(tmp_path, files, [ETCD]))
    (tmp_path / "a").write_text("c")
    changed.add(mark(tmp_path, files, [ETCD]))
    (tmp_path / "b").rename(tmp_path / "c")
    changed.add(mark(tmp_path, [tmp_path / "a", tmp_path / "c"], [ETCD]))
    assert len(changed) == 6


@pytest.mark.parametrize(
    ("image", "shared", "ours"), [("node:2", "/a", True), ("node:1", "/b", True), ("node:1", "/a", False)]
)
def test_a_cluster_of_another_making_is_told_by_its_mark(image: str, shared: str, ours: bool) -> None:
    made = made_as(kind_config("node:1", Path("/a"), ours=True))
    assert made_as(kind_config("node:1", Path("/a"), ours=True)) == made
    assert made_as(kind_config(image, Path(shared), ours=ours)) != made


def test_all_nodes_see_the_shared_folder_and_carry_the_mark() -> None:
    config = kind_config("node:1", Path("/a"), ours=True)
    assert [node["role"] for node in config["nodes"]] == ["control-plane", "worker", "worker"]
    for node in config["nodes"]:
        assert node["extraMounts"] == [{"hostPath": "/a", "containerPath": "/var/holdfast-shared"}]
        assert node["labels"] == {MARK: made_as(config)}


def _node(name: str, status: str = "True", made: str = "x") -> Tree:
    conditions = [{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": status}]
    return {"metadata": {"name": name, "labels": {MARK: made}}, "status": {"conditions": conditions}}


def test_a_cluster_is_whole_when_all_its_nodes_are_ready() -> None:
    nodes = [_node(name) for name in NODES]
    assert whole(reversed(nodes), "x")
    assert not whole(nodes, "y")
    assert not whole(nodes[1:], "x")
    assert not whole([], "x")
    assert not whole([*nodes[1:], _node(NODES[0], "Unknown")], "x")
    assert not whole([*nodes[1:], {"metadata": {"name": NODES[0]}}], "x")


@pytest.mark.parametrize(
    ("words", "away"),
    [
        ("Unable to connect to the server: net/http: TLS handshake timeout", True),
        ('error when creating "STDIN": Post "https://127.0.0.1:1/api": read tcp: connection reset by peer', True),
        ('error: error validating "STDIN": error validating data: failed to download openapi: unknown', True),
        ('Error from server (NotFound): namespaces "a" not found', False),
        ("curl: (56) connection reset by peer\ncommand terminated with exit code 56", False),
    ],
)
def test_only_an_api_server_without_an_answer_is_away(words: str, away: bool) -> None:
    assert unreachable(words) == away


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("runtime", "docker.io/library/runtime:latest"),
        ("debian:bookworm", "docker.io/library/debian:bookworm"),
        ("holdfast/runtime:1", "docker.io/holdfast/runtime:1"),
        ("holdfast.test/a/b:1", "holdfast.test/a/b:1"),
        ("localhost/a", "localhost/a:latest"),
        ("registry:5000/a", "registry:5000/a:latest"),
    ],
)
def test_nodes_call_images_by_their_full_names(short: str, full: str) -> None:
    assert full_name(short) == full


def test_a_node_holds_an_image_of_matching_name_and_identity() -> None:
    listed = (
        "REF TYPE DIGEST SIZE PLATFORMS LABELS\n"
        "docker.io/library/app:1 some/type sha256:manifest 1.0 MiB linux/amd64 -\n"
        "docker.io/library/app:2 some/type sha256:newer 1.0 MiB linux/amd64 -\n"
        "sha256:identity some/type sha256:manifest 1.0 MiB linux/amd64 -\n"
    )
    assert holds(listed, "docker.io/library/app:1", "sha256:identity")
    assert not holds(listed, "docker.io/library/app:2", "sha256:identity"), "the name means another image there"
    assert not holds(listed, "docker.io/library/app:1", "sha256:other")
    assert not holds(listed, "docker.io/library/app:3", "sha256:other"), "neither is there"


def test_capabilities_that_root_lacks() -> None:
    status = "Name:\tsh\nCapInh:\t0000000000000000\nCapBnd:\t000001fffeffffff\nCapAmb:\t0000000000000000\n"
    assert lacks(status, 24)
    assert not lacks(status, 23)
    assert not lacks(status, 25)
    assert lacks(status, 41)


def test_the_base_comes_from_where_this_machine_installs_from() -> None:
    sources = ["a://m/debian/ bookworm", "a://m/debian/ bookworm-updates", "a://m/security/ bookworm-security"]
    assert mirrors([*sources, "a://n/tools/ stable"]) == {
        "bookworm": "a://m/debian/",
        "bookworm-updates": "a://m/debian/",
        "bookworm-security": "a://m/security/",
    }
    assert mirrors(["a://m/debian/ trixie"]) == {}


def test_component_images_are_named_as_kubeadm_asks() -> None:
    assert tags("x/kube-proxy:v1\nx/coredns/coredns:v2\n") == {
        "kube-proxy": "x/kube-proxy:v1",
        "coredns": "x/coredns/coredns:v2",
    }
    assert sandbox().startswith("holdfast.test/pause:")


def test_every_container_has_a_log_and_a_restarted_one_two() -> None:
    pod = {
        "metadata": {"namespace": "n", "name": "p"},
        "status": {
            "initContainerStatuses": [{"name": "first", "restartCount": 0}],
            "containerStatuses": [{"name": "main", "restartCount": 2}],
        },
    }
    pending = {"metadata": {"namespace": "n", "name": "q"}, "status": {"phase": "Pending"}}
    assert list(containers([pod, pending])) == [
        Container("n", "p", "first", restarted=False),
        Container("n", "p", "main", restarted=True),
    ]


def test_the_last_look_at_the_machine_is_kept() -> None:
    looks = "top - 10:00\n since the start\n\ntop - 10:01\n" + "\n".join(map(str, range(99)))
    lines = busiest(looks).splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("top - 10:01", "12", 14)
    assert busiest("no such program\n") == "no such program"
