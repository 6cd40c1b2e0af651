"""The cluster of `make cluster`, whole for each test; what it says is saved where one has failed."""

import re
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.config import NODES
from tests.cluster.diagnosis import diagnose
from tests.cluster.folders import kubeconfig

_HERE = Path(__file__).parent
_SAVED = Path(__file__).parents[2] / ".holdfast" / "kind"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.kind)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # Before fixtures clean up. Hooks of a conftest here see only the tests here.
    if report.when == "call" and report.failed:
        folder = _SAVED / re.sub(r"\W+", "-", item.name)
        diagnose(folder)
        report.sections.append(("cluster", f"what the cluster said: {folder}"))
    return report


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    assert kubeconfig().exists(), "there is no cluster: `make cluster` makes one"
    return Cluster()


@pytest.fixture(autouse=True)
def whole(cluster: Cluster) -> Iterator[None]:
    """Nodes that a test has stopped are back for the next one."""
    yield
    for node in NODES:
        if not cluster.running(node):
            cluster.start_node(node)
