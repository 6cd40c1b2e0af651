"""The chart as the API server would get it, without an API server. Must not change what Helm gives."""

import functools
import tempfile
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.chart.helms import Helm

CHART = Path(__file__).parents[2] / "charts" / "holdfast"
RELEASE, NAMESPACE = "hold", "hold-system"
Tree = dict[str, Any]


@functools.cache
def renderer(major: int = 3) -> Helm:
    """A Helm without a cluster."""
    return Helm(major, Path(tempfile.gettempdir()))


def rendered(*settings: str, namespace: str = NAMESPACE, major: int = 3, only: str = "") -> list[Tree]:
    """All objects of a release with these settings (`name=value`)."""
    options = [part for setting in settings for part in ("--set", setting)]
    shown = ["--show-only", only] if only else []
    text = renderer(major)("template", RELEASE, str(CHART), "--namespace", namespace, *options, *shown)
    return trees(text)


def trees(text: str) -> list[Tree]:
    """The objects in this text."""
    return [tree for tree in YAML(typ="safe").load_all(text) if tree is not None]


def one(manifests: list[Tree], kind: str, name: str | None = None) -> Tree:
    """The only object of this kind, or of this kind and name."""
    (tree,) = [one for one in manifests if one["kind"] == kind and name in (None, one["metadata"]["name"])]
    return tree
