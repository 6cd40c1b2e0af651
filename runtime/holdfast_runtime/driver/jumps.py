"""The jump that settings like `--set clicks/3=oldest` ask for, or why it is refused.

Pure: takes the app's positions. Also adds the matching `holdfast offsets` command to the error of an app that can't
read on. Must not read or write anything.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from holdfast.errors import UserActionError
from holdfast.suggest import did_you_mean
from holdfast.tasks.partitions import PartitionNameError, StreamPartition, parse_partition
from holdfast_runtime.checkpoint.offsets import Jump
from holdfast_runtime.inspection.positions import AppPositions, PartitionPosition, StreamPositions
from holdfast_runtime.loop.lost_positions import PositionLostError

_OLDEST, _END = "oldest", "end"
_MOST_DIGITS = 18
"""Far more than any Kafka offset has, and far fewer than the number that Python refuses to parse."""


class SettingRefusedError(UserActionError):
    """Positions that can't be set, or not in this way."""


@dataclass(frozen=True, slots=True)
class PositionSetting:
    """One `--set` option."""

    text: str
    stream: str
    partition: int | None
    """None: all partitions."""
    to: str | int
    """`oldest`, `end`, or the offset of the next record to read."""


@dataclass(frozen=True, slots=True)
class PositionChange:
    """The effect of a jump on one partition."""

    stand: PartitionPosition
    position: int
    to: int
    begin: int
    """The oldest available record."""
    end: int

    @property
    def skipped(self) -> int:
        """Return how many existing records will not be read."""
        return max(0, self.to - (self.begin if self.stand.trouble else max(self.position, self.begin)))

    @property
    def again(self) -> int:
        """Return how many records will be read a second time."""
        return 0 if self.stand.trouble else max(0, self.position - self.to)


def parse_setting(text: str) -> PositionSetting:
    """Parse one setting; raise a `ValueError` that says how to write it."""
    name, equals, value = text.rpartition("=")
    number = value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS
    if not (name and equals and (number or value in (_OLDEST, _END))):
        message = f"{text!r}: write STREAM/PARTITION=oldest, =end or =NUMBER, or STREAM=oldest or =end"
        raise ValueError(message)
    try:
        stream, partition = parse_partition(name)
    except PartitionNameError:
        if number:
            message = f"{text!r}: a number is an offset of one partition; write {name}/PARTITION={value}"
            raise ValueError(message) from None
        return PositionSetting(text, name, None, value)
    return PositionSetting(text, stream, partition, int(value) if number else value)


def decide_jump(
    settings: Sequence[PositionSetting], standing: AppPositions, id_: str
) -> tuple[Jump, tuple[PositionChange, ...]]:
    """Return the jump and its changes, or raise `SettingRefusedError`. `id_` must be unique among jumps."""
    if (planned := standing.logged.planned) is not None:
        message = (
            f"batch {planned.batch} of {standing.app} is planned and not done: it is run first, as it was planned. "
            "Run the app until it is done (holdfast run --batches 1), or, if it can't be done, have it planned again "
            "(holdfast offsets --replan); then set positions"
        )
        raise SettingRefusedError(message)
    changes: dict[StreamPartition, PositionChange] = {}
    for setting in settings:
        for stand in _stands(setting, standing):
            if stand.partition in changes:
                raise _refused(setting, f"{stand.partition} is set twice")
            changes[stand.partition] = _change(setting, stand)
    from_positions = {partition: change.position for partition, change in changes.items()}
    to = {partition: change.to for partition, change in changes.items()}
    ids = dict(_taken_over(standing, changes))
    return Jump(id_, from_positions, to, ids), tuple(changes[partition] for partition in sorted(changes))


def _refused(setting: PositionSetting, why: str) -> SettingRefusedError:
    return SettingRefusedError(f"--set {setting.text}: {why}")


def _stands(setting: PositionSetting, standing: AppPositions) -> tuple[PartitionPosition, ...]:
    """Return the partitions that a setting concerns."""
    stream = next(
        (stream_positions for stream_positions in standing.streams if stream_positions.name == setting.stream), None
    )
    if stream is None:
        hint = did_you_mean(setting.stream, [stream_positions.name for stream_positions in standing.streams])
        raise _refused(setting, f"{standing.app} reads no stream {setting.stream}{hint}")
    if (why := _not_settable(stream)) is not None:
        raise _refused(setting, why)
    stands = tuple(stand for stand in stream.stands if stand.position is not None)
    if setting.partition is None:
        if not stands:
            raise _refused(setting, f"this run has not seen stream {stream.name} yet, there is nothing to set")
        return stands
    chosen_stands = tuple(stand for stand in stands if stand.partition.partition == setting.partition)
    if not chosen_stands:
        partitions = ", ".join(str(stand.partition) for stand in stands) or "none of the stream"
        raise _refused(setting, f"this run has not seen {stream.name}/{setting.partition} yet; it has {partitions}")
    return chosen_stands


def _not_settable(stream: StreamPositions) -> str | None:
    """Return why no partition of the stream can be set; None: they can."""
    if stream.role == "intermediate":
        return (
            f"the app makes stream {stream.name} itself, and its watermarks and ends of streams depend on what was "
            "read of it; only inputs can be set"
        )
    if stream.kind == "generator":
        return f"stream {stream.name} is generated as time goes on and keeps no records to go to"
    if stream.unknown is not None:
        return f"it is not known what there is of stream {stream.name}: {stream.unknown}"
    return None


def _change(setting: PositionSetting, stand: PartitionPosition) -> PositionChange:
    if stand.bounds is None or stand.position is None or stand.end is None:
        why = (
            f"{stand.partition} is not there any more; a stream that has lost partitions can only be read by a new run "
            "(another spec.runId)"
        )
        raise _refused(setting, why)
    if stand.last is not None and stand.position >= stand.last:
        why = (
            f"{stand.partition} is of a bounded stream and has ended, which state remembers; only a new run (another "
            "spec.runId) reads it again"
        )
        raise _refused(setting, why)
    oldest, end = min(stand.bounds.oldest, stand.end), stand.end
    to = {_OLDEST: oldest, _END: end}.get(setting.to) if isinstance(setting.to, str) else setting.to
    assert to is not None  # noqa: S101 - it was parsed
    if not oldest <= to <= end:
        raise _refused(setting, f"{stand.partition} has records from {oldest}, and ends at {end}")
    return PositionChange(stand, stand.position, to, oldest, end)


def _taken_over(standing: AppPositions, changed: Collection[StreamPartition]) -> Iterator[tuple[str, str]]:
    """Yield recreated topics: all their partitions must be set, or offsets of two topics would be mixed."""
    partitions = set(changed)
    for stream in standing.streams:
        positioned = {stand.partition for stand in stream.stands if stand.position is not None}
        if not partitions & positioned or not any(stand.recreated for stand in stream.stands):
            continue
        if left := sorted(positioned - partitions):
            message = (
                f"the topic of stream {stream.name} was created again: set all of its partitions at once "
                f"(--set {stream.name}=oldest); left out: {', '.join(map(str, left))}"
            )
            raise SettingRefusedError(message)
        if stream.grown:
            message = (
                f"the topic of stream {stream.name} was created again, and it had grown in this run: the order of its "
                "records is known only by offsets of the old topic. Start a new run (another spec.runId)"
            )
            raise SettingRefusedError(message)
        assert stream.id is not None  # noqa: S101 - the id told that the topic was recreated
        yield stream.name, stream.id


OffsetsCommand = Callable[[Sequence[str]], str]
"""Returns the command line that makes these settings."""


def with_offsets_command(
    error: PositionLostError, command: OffsetsCommand, own_streams: Collection[str]
) -> PositionLostError:
    """Return the error with the command that sets positions. `own_streams`: the app's own, which can't be set."""
    if any(parse_setting(setting).stream in own_streams for setting in error.settings):
        return error
    how = command(error.settings)
    message = f"{error}. Or keep the state and continue elsewhere: {how} (docs/kafka.md says what that means)"
    return PositionLostError(message, error.settings)
