"""An image in which a node of the cluster runs: kind's own where it can be had, else one made here.

The one made here is named after the fingerprint of all that goes into it, so that a change makes another, and nothing
is made twice. It is kept by Docker, whose data lie in the cache; a second copy as an archive would cost 450 MB and half
a minute, and save half a minute where Docker's data alone are lost.
"""

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.api.programs import KUBERNETES
from tests.cluster import docker, programs
from tests.cluster.base import BASE, ensure_base
from tests.cluster.components import NODE, REPOSITORY, prepare_kube_proxy, write_components
from tests.cluster.daemon import limited
from tests.cluster.folders import home
from tests.cluster.programs import compiled
from tests.cluster.steps import side_by_side, step
from tests.go_programs import Program, built, fingerprint

_STOCK = "kindest/node:v1.34.0"
"""What this version of kind is tested with."""
_OURS = f"{REPOSITORY}/node"
_LEFT_OVER = f"{REPOSITORY}/left-over"
_INSIDE = (programs.KUBELET, programs.KUBEADM, programs.KUBECTL, programs.RUNC_FIT)
_HERE = Path(__file__).parent
_MAKERS = (_HERE / "archive.py", _HERE / "components.py")


def ensure_node_image() -> str:
    """Its name; HOLDFAST_NODE_IMAGE names another one, e.g. of an older Kubernetes."""
    if chosen_image := os.environ.get("HOLDFAST_NODE_IMAGE"):
        return chosen_image if docker.has(chosen_image) else _pulled(chosen_image)
    ours = f"{_OURS}:{mark(_HERE, [*NODE.rglob('*'), *_MAKERS], [*programs.OF_KUBERNETES, *programs.OTHERS])}"
    for image in (ours, _STOCK):
        if docker.has(image):
            return image
    # Kind's own image can't start pods where root is limited.
    if not limited() and docker.reaches(_STOCK):
        return _pulled(_STOCK)
    side_by_side(_compile_kubernetes, _prepare_the_rest)
    _make(ours)
    return ours


def _pulled(image: str) -> str:
    with step("pull the node image") as work:
        work.run("docker", "pull", image)
    return image


def drop_others(image: str) -> None:
    """Remove older ones that were made here: each has more than a gigabyte."""
    for older in docker.ask("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", _OURS).split():
        if older != image:
            docker.ask("image", "rm", "--force", older)


def is_ours(image: str) -> bool:
    """Whether it was made here, and so holds images of our own names."""
    return image.startswith(f"{_OURS}:")


def mark(root: Path, paths: Iterable[Path], compiled_from: Iterable[Program]) -> str:
    """A fingerprint of files, with their rights, and of programs; the order does not count."""
    digest = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file()):
        name = str(path.relative_to(root))
        executable = path.stat().st_mode & 0o100
        digest.update(f"{name}\0{executable}\0".encode() + path.read_bytes() + b"\0")
    for program in sorted(compiled_from, key=lambda tool: tool.name):
        digest.update(f"{program.name} {fingerprint(program)}\0".encode())
    return digest.hexdigest()[:16]


def _compile_kubernetes() -> None:
    for program in programs.OF_KUBERNETES:
        compiled(program)


def _prepare_the_rest() -> None:
    ensure_base()
    with step("system of nodes") as work:
        docker.build(work, NODE / "Dockerfile", NODE, f"{_OURS}-system", {"BASE": BASE}, target="system")
        prepare_kube_proxy(work)
    for program in programs.OTHERS:
        compiled(program)


def _make(image: str) -> None:
    # In the cache's file system, so that programs need not be copied.
    with TemporaryDirectory(dir=home(), prefix="node-image-") as folder:
        context, scratch = Path(folder) / "context", Path(folder) / "scratch"
        (context / "images").mkdir(parents=True)
        scratch.mkdir()
        with step("images of the cluster") as work:
            write_components(work, context / "images", scratch)
        with step("node image") as work:
            shutil.copytree(NODE / "files", context / "files")
            for program in _INSIDE:
                (context / program.name).hardlink_to(built(program))
            docker.build(work, NODE / "Dockerfile", context, image, {"BASE": BASE, "KUBERNETES": KUBERNETES})
            work.run("docker", "image", "prune", "--force", "--filter", f"label={_LEFT_OVER}")
