"""The Debian image that others stand on; where no registry has it, made of the packages this machine installs from."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cluster import docker
from tests.cluster.steps import Step, step

BASE = "debian:bookworm-slim"
_SUITE = "bookworm"
_NOT_SLIM = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "var/lib/apt/lists",
    "var/cache/apt",
)


def ensure_base() -> None:
    """`BASE` is there: as it was, pulled, or bootstrapped."""
    if docker.has(BASE):
        return
    with step("base image") as work:
        if docker.reaches(BASE):
            work.run("docker", "pull", BASE)
        else:
            _bootstrap(work)


def mirrors(targets: Iterable[str]) -> dict[str, str]:
    """Where each suite of this release comes from, of lines `URI SUITE` as apt tells them."""
    pairs = [line.split() for line in targets]
    return {suite: uri for uri, suite in pairs if suite.split("-")[0] == _SUITE}


def _bootstrap(work: Step) -> None:
    question = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"]
    suites = mirrors(subprocess.run(question, capture_output=True, text=True, check=True).stdout.splitlines())
    with TemporaryDirectory(prefix="holdfast-base-") as folder:
        root = Path(folder) / "root"
        work.run("debootstrap", "--variant=minbase", _SUITE, root, *filter(None, [suites.get(_SUITE)]))
        if suites:
            lines = [f"deb {uri} {suite} main\n" for suite, uri in suites.items()]
            (root / "etc/apt/sources.list").write_text("".join(lines))
        for name in _NOT_SLIM:
            shutil.rmtree(root / name, ignore_errors=True)
            (root / name).mkdir()
        archive = Path(folder) / "root.tar"
        work.run("tar", "--create", "--file", archive, "--directory", root, ".")
        work.run("docker", "import", archive, BASE)
