"""The way of images into nodes: pods run images that no registry has, from this machine's Docker.

An image that a node has already is not carried there again.
"""

import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cluster import docker
from tests.cluster.config import WORKERS
from tests.cluster.folders import home
from tests.cluster.steps import ClusterError, step

_CTR = ("ctr", "--namespace=k8s.io", "images")
_LIMIT = 600.0
_DEFAULT_HOST = "docker.io"
_DEFAULT_OWNER = "library"


def load_image(image: str, nodes: Sequence[str] = WORKERS) -> None:
    """The image, as Docker has it now, on these nodes."""
    identity = docker.ask("image", "inspect", "--format", "{{.Id}}", image)
    missing = [node for node in nodes if not _has(node, full_name(image), identity)]
    if not missing:
        return
    with step(f"load {image}"), TemporaryDirectory(dir=home(), prefix="load-") as folder:
        archive = Path(folder) / "image.tar"
        docker.ask("save", "--output", str(archive), image, seconds=_LIMIT)
        with ThreadPoolExecutor(len(missing)) as pool:
            for carried in [pool.submit(_import, node, archive) for node in missing]:
                carried.result()


def _has(node: str, name: str, identity: str) -> bool:
    """Whether the node has it by this name; it is given the name where it has the image by another."""
    listed = _listed(node)
    if not holds(listed, name, identity) and identity in listed.split():
        docker.ask("exec", node, *_CTR, "tag", "--force", identity, name)
        listed = _listed(node)
    return holds(listed, name, identity)


def holds(listed: str, name: str, identity: str) -> bool:
    """Whether the name stands for this image, in lines `NAME TYPE DIGEST ...` of a node.

    The kubelet's side names each image by its identity too; the digest they share is that of the manifest.
    """
    digests = {words[0]: words[2] for line in listed.splitlines()[1:] if len(words := line.split()) > 2}
    return name in digests and digests[name] == digests.get(identity)


def full_name(image: str) -> str:
    """As nodes call what Docker calls by a short name."""
    name = image if ":" in image.rsplit("/", 1)[-1] else f"{image}:latest"
    first, slash, _ = name.partition("/")
    if not slash:
        return f"{_DEFAULT_HOST}/{_DEFAULT_OWNER}/{name}"
    return name if "." in first or ":" in first or first == "localhost" else f"{_DEFAULT_HOST}/{name}"


def _listed(node: str) -> str:
    return docker.ask("exec", node, *_CTR, "list")


def _import(node: str, archive: Path) -> None:
    command = ["docker", "exec", "--interactive", node, *_CTR, "import", "--all-platforms", "-"]
    with archive.open("rb") as content:
        done = subprocess.run(command, stdin=content, capture_output=True, text=True, check=False, timeout=_LIMIT)
    if done.returncode:
        message = f"{node} did not take the image: {done.stderr.strip()}"
        raise ClusterError(message)
