"""Why: a test may have its app as a file, as YAML, as a tree or as the app itself.

Must not accept what `holdfast` would refuse.
"""

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from holdfast.spec.app import KIND, StreamApp
from holdfast.spec.parse import parse_app
from holdfast_runtime.testing.errors import TestMisuseError

AppLike = StreamApp | Mapping[str, Any] | Path | str


def app_of(given: AppLike) -> StreamApp:
    """The app: itself, its tree, the path of its file, or its YAML."""
    if isinstance(given, StreamApp):
        return given
    if isinstance(given, Mapping):
        return parse_app(dict(given))
    is_path = isinstance(given, Path) or "\n" not in given
    text = Path(given).read_text(encoding="utf-8") if is_path else str(given)
    trees = [tree for tree in YAML(typ="safe", pure=True).load_all(StringIO(text)) if isinstance(tree, dict)]
    apps = [tree for tree in trees if tree.get("kind") == KIND]
    if len(apps) != 1:
        message = f"{given if is_path else 'the text'} holds {len(apps)} StreamApps; a TestDriver runs one"
        raise TestMisuseError(message)
    return parse_app(apps[0])


def grown(app: StreamApp, stream: str, partitions: int) -> StreamApp:
    """The same app with more partitions of a stream."""
    streams = tuple(
        one.model_copy(update={"partitions": partitions}) if one.name == stream else one for one in app.spec.streams
    )
    return app.model_copy(update={"spec": app.spec.model_copy(update={"streams": streams})})
