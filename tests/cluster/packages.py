"""The packages that the kit needs of the system, installed where they are missing and root may do so."""

import os
import shutil
from collections.abc import Collection

from tests.cluster import docker
from tests.cluster.steps import ClusterError, step

_OF = {"docker": "docker.io", "debootstrap": "debootstrap", "openssl": "openssl"}
"""Program -> Debian package."""
_OF_A_DAEMON = {"dockerd": "docker.io", "iptables": "iptables"}


def ensure_packages() -> None:
    """Everything that is called by name is there."""
    package_of = _OF if docker.answers() else {**_OF, **_OF_A_DAEMON}
    install({package for program, package in package_of.items() if shutil.which(program) is None})


def install(missing: Collection[str]) -> None:
    """Install packages, if there are any."""
    if not missing:
        return
    if os.geteuid() or shutil.which("apt-get") is None:
        message = f"missing here: {', '.join(sorted(missing))}; as root: apt-get install {' '.join(sorted(missing))}"
        raise ClusterError(message)
    with step("packages") as work:
        work.run("apt-get", "update")
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        work.run("apt-get", "install", "-y", "--no-install-recommends", *sorted(missing), environment=quiet)
