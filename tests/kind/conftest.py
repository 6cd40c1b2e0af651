"""The cluster of `make cluster`, whole for each test; what it says is saved where one has failed."""

import re
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.chart.helms import Helm
from tests.cluster.cluster import Cluster
from tests.cluster.config import NODES
from tests.cluster.diagnosis import MACHINE, diagnose
from tests.cluster.folders import kubeconfig
from tests.kafka.counted import Counted
from tests.kind.apps import App, counted_app
from tests.kind.fed import Fed
from tests.kind.images import Images, ensure_images
from tests.kind.installed import SYSTEM, Installed, Team
from tests.kind.kafka import KindBroker
from tests.kind.windowed import with_windows

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
    if report.when != "teardown" and report.failed:
        folder = _SAVED / re.sub(r"\W+", "-", item.name)
        diagnose(folder)
        # Where only the end of a log is seen, this tells a starved cluster from a broken one.
        restarted = ", ".join(sorted(path.name for path in folder.glob("*.previous.log"))) or "nothing"
        section = f"what the cluster said: {folder}\nstarted again: {restarted}\n{(folder / MACHINE).read_text()}"
        report.sections.append(("cluster", section))
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


@pytest.fixture(scope="session")
def images(cluster: Cluster) -> Images:
    """Built, and on the nodes."""
    built_images = ensure_images()
    cluster.load_image(built_images.kafka, NODES[:1])
    for image in (built_images.operator, built_images.runtime):
        cluster.load_image(image)
    return built_images


@pytest.fixture(scope="session")
def broker(cluster: Cluster, images: Images) -> KindBroker:
    kind_broker = KindBroker(cluster)
    kind_broker.start(images.kafka)
    return kind_broker


@pytest.fixture(scope="session")
def installed(cluster: Cluster, images: Images, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    helm = Helm(4, tmp_path_factory.mktemp("helm"), cluster.kubeconfig, SYSTEM)
    release = Installed(cluster, helm, images)
    release.upgrade()
    return release


@pytest.fixture
def team(installed: Installed) -> Iterator[Team]:
    with installed.team() as made:
        yield made


@pytest.fixture
def counted(broker: KindBroker) -> Counted:
    return Counted.new(broker)


@pytest.fixture
def windows() -> bool:
    """Whether the app counts in windows too; modules whose pods die say so."""
    return False


@pytest.fixture
def changelog() -> bool:
    """Whether deltas and plans are in a topic; modules that want it say so."""
    return False


@pytest.fixture
def app(cluster: Cluster, team: Team, counted: Counted, windows: bool, changelog: bool) -> App:
    """Not applied yet."""
    made = counted_app(cluster, team, counted)
    if changelog:
        (system,) = made.tree["spec"]["systems"]
        made.tree["spec"]["runtime"]["checkpoint"]["changelog"] = {"system": system["name"], "partitions": 8}
    if windows:
        made.tree = with_windows(made.tree, counted)
    return made


@pytest.fixture
def running(app: App, counted: Counted, windows: bool) -> Iterator[tuple[App, Fed]]:
    """Applied, ready, and under load."""
    with Fed(counted, windows=windows) as fed:
        app.apply()
        app.ready()
        fed.flows()
        yield app, fed
