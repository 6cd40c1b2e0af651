"""`docs/kind.md`, walked as somebody new would: each block for a shell as it stands, in order."""

import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.helms import HELMS
from tests.cluster.cluster import Cluster
from tests.docs.pages import ROOT, blocks_of
from tests.go_programs import built
from tests.kind.installed import RELEASE, Installed

_PAGE = ROOT / "docs" / "kind.md"
_LAST = "make cluster-down"
"""Not run: others may want the cluster."""
_WALK = 900.0
_BEGUN = re.compile(r"^=== (\S+) (\d+)$", re.MULTILINE)


@pytest.fixture
def bare(cluster: Cluster, installed: Installed, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A cluster without the release, as `make cluster` leaves it, and the environment of a new shell with Helm."""
    _clean(cluster)
    installed.helm("uninstall", RELEASE, "--wait")
    (tmp_path / "helm").symlink_to(built(HELMS[installed.helm.major]))
    yield {"HOME": os.environ["HOME"], "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    installed.upgrade()
    _clean(cluster)


def _clean(cluster: Cluster) -> None:
    """Take away what the page has made, and leaves; an operator is there."""

    def delete(kinds: str, *names: str) -> None:
        cluster.kubectl("delete", kinds, *names, "--namespace=default", "--ignore-not-found", "--timeout=100s")

    delete("streamapp", "visits")
    delete("serviceaccount,role,rolebinding", "holdfast-app")
    delete("persistentvolumeclaim", "checkpoints")
    delete("persistentvolume", "checkpoints", *(f"{node}-{number}" for node in cluster.workers for number in range(2)))
    delete("storageclass", "local")
    for node in cluster.workers:
        cluster.on_node(node, "rm", "-rf", "/var/holdfast")
    shutil.rmtree(cluster.shared / "checkpoints", ignore_errors=True)


def test_the_blocks_of_the_page_run_as_they_stand(bare: dict[str, str]) -> None:
    files = [ROOT / block.title for block in blocks_of(_PAGE) if block.title is not None]
    assert not [file for file in files if file.exists()]
    shell = str(shutil.which("bash"))
    try:
        began = time.monotonic()
        ran = subprocess.run(
            [shell, "-ec", "\n".join(walk())],
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env=bare,
            capture_output=True,
            text=True,
            timeout=_WALK,
            check=False,
        )
    finally:
        for file in files:
            file.unlink(missing_ok=True)
    print(f"the page took {time.monotonic() - began:.0f} s; blocks began: {_BEGUN.findall(ran.stdout)}")  # noqa: T201 - figures for `-s`
    assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}"
    _, again, after = ran.stdout.rpartition("visits  True   Running  1          2")
    assert again, ran.stdout
    assert " 4/4 " in after
    assert '{"views": ' in after


def walk() -> Iterator[str]:
    """A script that writes the files of the page, and does what its blocks say."""
    for block in blocks_of(_PAGE):
        if block.title is not None:
            yield f"printf %s {shlex.quote(block.text)} > {shlex.quote(block.title)}"
        elif block.language == "sh":
            yield f"echo === {block.where} $SECONDS"
            yield "\n".join(line for line in block.text.splitlines() if not line.startswith(_LAST))
