"""From nothing to a cluster on which tests can start, and back: the order of things, on one screen."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.config import kind_config
from tests.cluster.daemon import ensure_daemon, stop_daemon
from tests.cluster.docker import answers
from tests.cluster.folders import home
from tests.cluster.node_image import drop_others, ensure_node_image, is_ours
from tests.cluster.nodes import delete_cluster, ensure_cluster
from tests.cluster.packages import ensure_packages
from tests.cluster.programs import KIND, KUBECTL, compiled


def prepare() -> None:
    """All that a cluster needs is compiled and built, which on a new machine takes most of the time; none runs yet."""
    with _alone():
        _prepared()


def up(shared: Path) -> None:
    """A whole cluster is there, whose nodes share this folder; what is there already is used as it is."""
    with _alone():
        image = _prepared()
        shared.mkdir(parents=True, exist_ok=True)
        shared.chmod(0o777)  # pods are not root
        ensure_cluster(kind_config(image, shared.resolve(), ours=is_ours(image)))
        drop_others(image)


def down(*, daemon: bool) -> None:
    """The cluster is gone; `daemon`: and so is the Docker daemon, if it was started here."""
    with _alone():
        if answers():
            delete_cluster()
        if daemon:
            stop_daemon()


def _prepared() -> str:
    ensure_packages()
    ensure_daemon()
    image = ensure_node_image()
    for program in (KIND, KUBECTL):
        compiled(program)
    return image


@contextmanager
def _alone() -> Iterator[None]:
    with (home() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
