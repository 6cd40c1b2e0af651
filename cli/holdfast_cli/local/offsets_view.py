"""The output of `holdfast offsets`: where an app is in its inputs, as text or JSON. Must not read positions itself."""

import sys
from collections.abc import Mapping
from typing import Any

from holdfast.tasks.partitions import StreamPartition
from holdfast.times import event_moment
from holdfast_cli.output.screen import print_json, screen, styled
from holdfast_cli.output.text_table import TextTable
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.positions import (
    AppPositions,
    PartitionPosition,
    StreamPositions,
    positions_of,
    waiting_jump,
)

_Jump = Mapping[StreamPartition, int]
_CAN_NOT_GO_ON, _UNKNOWN = 1, 3
_NUMBERS = ("NEXT", "OLDEST", "END", "LAG")


def show_offsets(local_app: LocalApp, output: str, color: str) -> int:
    """Print the app's positions; return the exit code."""
    standing = positions_of(local_app)
    jump = waiting_jump(local_app, standing)
    if output == "json":
        print_json(_tree(standing, jump))
    else:
        _print(standing, jump, color)
    if unknown := dict.fromkeys(stream.unknown for stream in standing.streams if stream.unknown is not None):
        sys.stderr.writelines(f"holdfast: {why}\n" for why in unknown)
        return _UNKNOWN
    return _CAN_NOT_GO_ON if any(stand.trouble for stream in standing.streams for stand in stream.stands) else 0


def _print(standing: AppPositions, jump: _Jump | None, color: str) -> None:
    console, done = screen(color), standing.logged.done
    progress = f", batch {done.batch} of {event_moment(done.now)}" if done.batch else ", no batch done yet"
    console.print(f"{standing.app} run {standing.run}{progress}")
    table = TextTable("PARTITION", "ROLE", *_NUMBERS, "TROUBLE", right=_NUMBERS)
    for stream in standing.streams:
        for stand in stream.stands:
            numbers = (_cell(number) for number in _numbers(stand))
            trouble = ("-", "") if stand.trouble is None else (stand.trouble.sentence, "bold red")
            table.add(str(stand.partition), stream.role, *numbers, trouble)
        if not stream.stands:
            table.add(stream.name, stream.role, *("-" for _ in _NUMBERS), "-")
    table.print(console)
    if (planned := standing.logged.planned) is not None:
        console.print(f"batch {planned.batch} is planned and not done; it is run first (--replan has it planned again)")
    if jump is not None:
        where = ", ".join(f"{partition} to {to}" for partition, to in sorted(jump.items()))
        console.print(styled(("set", "yellow"), f": the next run goes to {where}"))


def _numbers(stand: PartitionPosition) -> tuple[int | None, ...]:
    return stand.position, None if stand.bounds is None else stand.bounds.oldest, stand.end, stand.lag


def _cell(number: int | None) -> str:
    return "-" if number is None else str(number)


def _tree(standing: AppPositions, jump: _Jump | None) -> dict[str, Any]:
    planned = standing.logged.planned
    return {
        "app": standing.app,
        "run": standing.run,
        "batch": standing.logged.done.batch,
        "planned": None if planned is None else planned.batch,
        "set": None if jump is None else {str(partition): to for partition, to in sorted(jump.items())},
        "partitions": [_partition(stream, stand) for stream in standing.streams for stand in stream.stands],
        "unknown": {stream.name: stream.unknown for stream in standing.streams if stream.unknown is not None},
    }


def _partition(stream: StreamPositions, stand: PartitionPosition) -> dict[str, Any]:
    position, oldest, end, lag = _numbers(stand)
    return {
        "partition": str(stand.partition),
        "stream": stream.name,
        "role": stream.role,
        "next": position,
        "oldest": oldest,
        "end": end,
        "lag": lag,
        "trouble": None if stand.trouble is None else stand.trouble.value,
    }
