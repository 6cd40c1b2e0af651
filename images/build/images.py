"""The images, what goes into each, and that none is built twice from the same.

An image is tagged with a fingerprint of all that goes into it, and with the version of Holdfast. Must not say how an
image is made: its Dockerfile does, which takes no more than `docker build`.
"""

import hashlib
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from images.build.builder import ensure_builder
from tests.cluster import docker
from tests.cluster.base import BASE, ensure_base
from tests.cluster.components import REPOSITORY
from tests.cluster.daemon import ensure_daemon
from tests.cluster.node_image import mark
from tests.cluster.packages import ensure_packages
from tests.cluster.steps import side_by_side, step
from tests.kafka.broker import kafka_jars

ROOT = Path(__file__).parents[2]
_PACKAGE = ("LICENSE", "README.md", "cli", "core", "hatch_build.py", "operator", "pyproject.toml", "runtime")
_LOCKED = ("images/packages", "requirements.lock")
_NOT = {"__pycache__"}
_KEPT = 4
"""Of each image: clones of the repository share one Docker."""


@dataclass(frozen=True)
class Image:
    """One image, called `holdfast/NAME`."""

    name: str
    sources: tuple[str, ...]
    """Files and directories of the repository."""
    jars: bool = False
    """Whether a broker's jars go into it, which Maven fetches."""

    @property
    def repository(self) -> str:
        """As the chart names it."""
        return f"holdfast/{self.name}"

    @property
    def dockerfile(self) -> Path:
        """How it is made."""
        return ROOT / "images" / self.name / "Dockerfile"


IMAGES = {
    image.name: image
    for image in (
        Image("operator", ("images/operator", *_LOCKED, *_PACKAGE)),
        Image("runtime", ("images/runtime", *_LOCKED, *_PACKAGE)),
        Image("kafka", ("images/kafka", "tests/kafka/pom.xml"), jars=True),
    )
}


def build(image_names: Iterable[str], base: str = BASE) -> dict[str, str]:
    """These images, by name as `REPOSITORY:TAG`; each built, unless it is there."""
    ensure_packages()
    ensure_daemon()
    if base == BASE:
        ensure_base()
    images = [IMAGES[name] for name in image_names]
    tagged = {image.name: f"{image.repository}:{fingerprint(image, base)}" for image in images}
    missing = [image for image in images if not docker.has(tagged[image.name])]
    arguments = {"BASE": base}
    if not all(image.jars for image in missing):
        arguments["BUILDER"] = ensure_builder(base)
        _make_tools(arguments)
    side_by_side(*(partial(_build, image, tagged[image.name], arguments) for image in missing))
    for image in images:
        docker.ask("tag", tagged[image.name], f"{image.repository}:{version()}")
    return tagged


def names(name: str, tagged: str) -> tuple[str, ...]:
    """All that an image is called."""
    return tagged, f"{IMAGES[name].repository}:{version()}"


def version() -> str:
    """Of Holdfast."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return str(project["project"]["version"])


def fingerprint(image: Image, base: str) -> str:
    """Of all that goes into the image."""
    stands_on = docker.ask("image", "inspect", "--format", "{{.Id}}", base)
    return hashlib.sha256(f"{mark(ROOT, files(image), ())} {stands_on}".encode()).hexdigest()[:16]


def files(image: Image) -> Iterator[Path]:
    """All sources of an image; what Python and compilers leave beside them is none."""
    for source in image.sources:
        path = ROOT / source
        paths = [path] if path.is_file() else path.rglob("*")
        yield from (one for one in paths if one.is_file() and one.suffix != ".so" and not _NOT & set(one.parts))


def _make_tools(arguments: Mapping[str, str]) -> None:
    """The stage with which all Dockerfiles of Python begin: made once, before they are built side by side."""
    with step("tools of images") as log:
        docker.build(log, IMAGES["operator"].dockerfile, ROOT, f"{REPOSITORY}/tools", arguments, target="builder")


def _build(image: Image, tagged: str, arguments: Mapping[str, str]) -> None:
    build_arguments = {"BASE": arguments["BASE"]} if image.jars else arguments
    with step(f"{image.name} image") as log, _context(image) as directory:
        docker.build(log, image.dockerfile, directory, tagged, build_arguments)
    listed = docker.ask("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", image.repository).split()
    older = [one for one in listed if one not in names(image.name, tagged)]  # the newest come first
    if older[_KEPT:]:
        docker.ask("image", "rm", *older[_KEPT:])


@contextmanager
def _context(image: Image) -> Iterator[Path]:
    """What Docker sees: the repository, or for jars a directory that is laid out for it."""
    if not image.jars:
        yield ROOT
        return
    with TemporaryDirectory(prefix="holdfast-image-") as directory:
        laid_out = Path(directory) / "context"
        shutil.copytree(image.dockerfile.parent, laid_out)
        shutil.copytree(kafka_jars(), laid_out / "jars")
        yield laid_out
