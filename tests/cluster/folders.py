"""The folders that outlive a command. All of them may be deleted once the cluster is down."""

from pathlib import Path

from tests.cached import cache

NAME = "holdfast"
"""Of the cluster; its nodes are called after it."""


def home() -> Path:
    """The cluster's own folder."""
    folder = cache() / "cluster"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kubeconfig() -> Path:
    """How the cluster is reached, with all rights."""
    return home() / "kubeconfig"


def docker_data() -> Path:
    """Images and volumes of a Docker daemon that was started here."""
    return home() / "docker"


def logs() -> Path:
    """What the steps of the last `up` said, one file each."""
    folder = home() / "logs"
    folder.mkdir(exist_ok=True)
    return folder


def shared() -> Path:
    """The folder that all nodes see, unless another one is given."""
    return home() / "shared"
