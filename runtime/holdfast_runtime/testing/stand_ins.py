"""The stand-ins of a test: the embedded log for Kafka, plain files for Spark's two logs, and a clock that stands.

A test's app is read from a file, YAML text, a tree or a `StreamApp`, and refused where `holdfast` would refuse it.
Planned and finished batches are kept on disk as Spark keeps them, so that a batch that was cut off runs again as it was
planned, even in another process. A batch is planned once: if its file exists already, another driver is using the
directory. Must not sync to disk: tests lose processes, not machines.
"""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from ruamel.yaml import YAML

from holdfast.errors import HoldfastError
from holdfast.planning.plan import Plan
from holdfast.spec.app import KIND, AppSpec, StreamApp
from holdfast.spec.parse import parse_app
from holdfast.spec.streams import LogSystem, System
from holdfast.spec.verbs import SQL_VERBS
from holdfast_runtime.checkpoint.offset_log import OffsetLogState
from holdfast_runtime.checkpoint.offsets import Offsets, OffsetsUnreadableError
from holdfast_runtime.clocks import Instant
from holdfast_runtime.inspection.spark_need import foreseen_columns
from holdfast_runtime.segments.compiling import compile_graph
from holdfast_runtime.segments.graph import CompiledGraph
from holdfast_runtime.state.errors import CheckpointUnavailableError
from holdfast_runtime.testing.failures import SparkNeededError, TestMisuseError

AppLike = StreamApp | Mapping[str, Any] | Path | str


def app_of(source: AppLike) -> StreamApp:
    """Return the app, which is given as itself, as a tree, as the path of its file, or as YAML text."""
    if isinstance(source, StreamApp):
        return source
    if isinstance(source, Mapping):
        return parse_app(dict(source))
    is_path = isinstance(source, Path) or "\n" not in source
    text = Path(source).read_text(encoding="utf-8") if is_path else str(source)
    trees = [tree for tree in YAML(typ="safe", pure=True).load_all(StringIO(text)) if isinstance(tree, dict)]
    apps = [tree for tree in trees if tree.get("kind") == KIND]
    if len(apps) != 1:
        message = f"{source if is_path else 'the text'} holds {len(apps)} StreamApps; a TestDriver runs one"
        raise TestMisuseError(message)
    return parse_app(apps[0])


def folder_of(source: AppLike) -> Path | None:
    """Return the directory of the file that an app is read from; None if it is from no file."""
    is_path = isinstance(source, Path) or (isinstance(source, str) and "\n" not in source)
    return Path(str(source)).absolute().parent if is_path else None


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
        declared.model_copy(update={"partitions": partitions}) if declared.name == stream else declared
        for declared in app.spec.streams
    )
    return app.model_copy(update={"spec": app.spec.model_copy(update={"streams": streams})})


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compiled_for(spec: AppSpec, plan: Plan, spark: "SparkSession | None") -> CompiledGraph:
    """Compile a valid app; raise `SparkNeededError` if it takes Spark SQL and there is no session."""
    if spark is not None:
        from holdfast_runtime.segments.catalyst import select_schema  # noqa: PLC0415 - as above

        return compile_graph(spec, plan, select_schema(spark))
    compiled = compile_graph(spec, plan, _columns_without_spark)
    if steps := [f"{node.name} ({node.verb})" for node in compiled.nodes if node.verb in SQL_VERBS]:
        raise _needed(steps)
    return compiled


def _columns_without_spark(schema: pa.Schema, items: tuple[str, ...]) -> pa.Schema:
    try:
        return foreseen_columns(schema, items)
    except HoldfastError as error:
        raise _needed(items) from error


def _needed(computed: Sequence[str]) -> SparkNeededError:
    return SparkNeededError(
        f"Spark SQL computes {', '.join(computed)}: give the driver a session, TestDriver(app, spark=spark), as "
        'SparkSession.builder.master("local[1]").getOrCreate() makes it; docs/verbs/filter.md says what needs none'
    )


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def millis_of(moment: datetime) -> int:
    """Return milliseconds since 1970; a moment without a zone is in UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND


def moment_of(millis: int) -> datetime:
    """Return the moment so many milliseconds after 1970, in UTC."""
    return _EPOCH + millis * _MILLISECOND


class StoppedClock:
    """The host's clocks, which move only when the test says so."""

    def __init__(self, moment: datetime) -> None:
        self.wall = millis_of(moment)
        """The time of day. Setting it lets no time pass."""
        self._passed = 0

    @property
    def instant(self) -> Instant:
        """Both clocks."""
        return Instant(self.wall, self._passed)

    def advance(self, by: timedelta) -> None:
        """Let this time pass; a negative one only sets the clock back."""
        millis = by // _MILLISECOND
        self.wall += millis
        self._passed += max(millis, 0)


_KEPT = 3


class History:
    """The offsets of the planned and finished batches of one run."""

    def __init__(self, directory: Path) -> None:
        if (directory / "metadata").exists():
            message = (
                f"{directory} was written by Spark (`holdfast run`), whose offsets a TestDriver does not read; give "
                "the test a directory of its own"
            )
            raise TestMisuseError(message)
        self._planned, self._done = directory / "test-offsets", directory / "test-commits"
        for entries in (self._planned, self._done):
            entries.mkdir(parents=True, exist_ok=True)

    def done(self) -> Offsets:
        """Return the offsets after the last finished batch."""
        batch = _last(self._done)
        return Offsets() if batch == 0 else self._read(batch)

    def unfinished(self) -> Offsets | None:
        """Return the batch that is planned but not done; None if there is none."""
        batch = _last(self._planned)
        return self._read(batch) if batch > _last(self._done) else None

    def logged(self) -> OffsetLogState:
        """Return `done` and `unfinished` as the state of an offset log."""
        return OffsetLogState(self.done(), self.unfinished())

    def plan(self, offsets: Offsets) -> None:
        """Write the plan of a batch; from now on the batch is run with these offsets."""
        draft = self._planned / f".{os.getpid()}"
        draft.write_text(offsets.text(), encoding="utf-8")
        try:
            (self._planned / str(offsets.batch)).hardlink_to(draft)
        except FileExistsError as error:
            message = (
                f"batch {offsets.batch} was planned by another driver on {self._planned.parent}; this one must end"
            )
            raise TestMisuseError(message) from error
        finally:
            draft.unlink()

    def finish(self, offsets: Offsets) -> None:
        """Mark a batch as done."""
        (self._done / str(offsets.batch)).touch()
        for directory in (self._done, self._planned):
            for batch in _batches(directory):
                if batch <= offsets.batch - _KEPT:
                    (directory / str(batch)).unlink(missing_ok=True)

    def _read(self, batch: int) -> Offsets:
        path = self._planned / str(batch)
        try:
            offsets = Offsets.parse(path.read_text(encoding="utf-8", errors="replace"))
        except OSError as error:
            message = f"{path} can't be read ({error.strerror}), though its batch is done: put the directory back"
            raise CheckpointUnavailableError(message) from error
        if offsets.batch != batch:
            message = f"{path} is of batch {offsets.batch}: put the directory back"
            raise OffsetsUnreadableError(message)
        return offsets


def _batches(directory: Path) -> list[int]:
    return [int(name) for name in os.listdir(directory) if name.isdecimal()]  # noqa: PTH208 - half the time


def _last(directory: Path) -> int:
    return max(_batches(directory), default=0)
