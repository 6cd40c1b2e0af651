"""The app of a test, read from a file, YAML text, a tree or a `StreamApp`, with its topics in the embedded log.

Must not accept what `holdfast` would refuse.
"""

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from holdfast.spec.app import KIND, StreamApp
from holdfast.spec.parse import parse_app
from holdfast.spec.streams import LogSystem, System
from holdfast_runtime.testing.failures import TestMisuseError

AppLike = StreamApp | Mapping[str, Any] | Path | str


def app_of(given: AppLike) -> StreamApp:
    """Return the app, which is given as itself, as a tree, as the path of its file, or as YAML text."""
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


def offline(app: StreamApp) -> StreamApp:
    """Return the app with its Kafka topics moved to the embedded log; inputs without a partition count get one each."""
    spec = app.spec
    kafka = {system.name for system in spec.systems if system.kafka is not None}
    if not kafka:
        return app
    systems = tuple(
        System(name=system.name, log=LogSystem()) if system.name in kafka else system for system in spec.systems
    )
    written = {step.to for step in spec.steps}
    streams = tuple(
        stream.model_copy(update={"partitions": stream.partitions or 1})
        if stream.system in kafka and stream.name not in written
        else stream
        for stream in spec.streams
    )
    return app.model_copy(update={"spec": spec.model_copy(update={"systems": systems, "streams": streams})})


def grown(app: StreamApp, stream: str, partitions: int) -> StreamApp:
    """Return the app with this many partitions of a stream."""
    streams = tuple(
        one.model_copy(update={"partitions": partitions}) if one.name == stream else one for one in app.spec.streams
    )
    return app.model_copy(update={"spec": app.spec.model_copy(update={"streams": streams})})
