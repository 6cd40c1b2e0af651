"""The images of this very tree, which tests on the cluster run."""

from dataclasses import dataclass

from images.build.images import IMAGES, build


@dataclass(frozen=True)
class Images:
    """Each as `REPOSITORY:TAG`, in this machine's Docker."""

    operator: str
    runtime: str
    kafka: str


def ensure_images() -> Images:
    """All of them; built, unless they are there."""
    return Images(**build(IMAGES))
