"""The output of `holdfast offsets` without changes: the app's positions as text or JSON."""

import json
import sys
from typing import Any

from holdfast_cli.local.local_app import LocalApp
from holdfast_cli.local.positions import AppPositions, PartitionPosition, StreamPositions, positions_of, waiting_jump
from holdfast_cli.output.amounts import moment
from holdfast_cli.output.screen import TextTable, screen, styled
from holdfast_runtime.checkpoint.jumps import Jump
from holdfast_runtime.loop.lost_positions import PositionTrouble

_CAN_NOT_GO_ON, _UNKNOWN = 1, 3
_NUMBERS = ("NEXT", "OLDEST", "END", "LAG")
_SAID = {
    PositionTrouble.GONE: "records are gone unread",
    PositionTrouble.RECREATED: "the topic was made anew",
    PositionTrouble.BEYOND_END: "it ends before where it was read to",
}


def show_offsets(logs: LocalApp, output: str, color: str) -> int:
    """Print the app's positions; return the exit code."""
    standing = positions_of(logs)
    jump = waiting_jump(logs, standing)
    if output == "json":
        sys.stdout.write(json.dumps(_tree(standing, jump), indent=1, ensure_ascii=False) + "\n")
    else:
        _print(standing, jump, color)
    if unknown := dict.fromkeys(one.unknown for one in standing.streams if one.unknown is not None):
        sys.stderr.writelines(f"holdfast: {why}\n" for why in unknown)
        return _UNKNOWN
    return _CAN_NOT_GO_ON if any(stand.trouble for stream in standing.streams for stand in stream.stands) else 0


def _print(standing: AppPositions, jump: Jump | None, color: str) -> None:
    console, done = screen(color), standing.logged.done
    at = f", batch {done.batch} of {moment(done.now)}" if done.batch else ", no batch done yet"
    console.print(f"{standing.app} run {standing.run}{at}")
    table = TextTable("PARTITION", "ROLE", *_NUMBERS, "TROUBLE", right=_NUMBERS)
    for stream in standing.streams:
        for stand in stream.stands:
            numbers = (_cell(number) for number in _numbers(stand))
            trouble = ("-", "") if stand.trouble is None else (_SAID[stand.trouble], "bold red")
            table.add(str(stand.partition), stream.role, *numbers, trouble)
        if not stream.stands:
            table.add(stream.name, stream.role, *("-" for _ in _NUMBERS), "-")
    table.print(console)
    if (planned := standing.logged.planned) is not None:
        console.print(f"batch {planned.batch} is planned and not done; it is run first (--replan has it planned anew)")
    if jump is not None:
        where = ", ".join(f"{one} to {to}" for one, to in sorted(jump.to.items()))
        console.print(styled(("set", "yellow"), f": the next run goes to {where}"))


def _numbers(stand: PartitionPosition) -> tuple[int | None, ...]:
    return stand.position, None if stand.bounds is None else stand.bounds.oldest, stand.end, stand.lag


def _cell(number: int | None) -> str:
    return "-" if number is None else str(number)


def _tree(standing: AppPositions, jump: Jump | None) -> dict[str, Any]:
    planned = standing.logged.planned
    return {
        "app": standing.app,
        "run": standing.run,
        "batch": standing.logged.done.batch,
        "planned": None if planned is None else planned.batch,
        "set": None if jump is None else {str(one): to for one, to in sorted(jump.to.items())},
        "partitions": [_partition(stream, stand) for stream in standing.streams for stand in stream.stands],
        "unknown": {one.name: one.unknown for one in standing.streams if one.unknown is not None},
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
