"""The output of `holdfast letters`: dead letters one by one or in groups, as text or as JSON lines.

Letters hold foreign bytes, and all of them is made printable here: on a terminal they could move the cursor. Needs the
extra `runtime`; imported only by `holdfast letters`.
"""

import base64
import itertools
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from heapq import nlargest
from typing import Any

from rich.console import Console

from holdfast.one_line import escaped, printable_json
from holdfast.tasks.partitions import StreamPartition
from holdfast.times import Micros, event_moment, row_moment
from holdfast_cli.local.tail import value_as_json
from holdfast_cli.output.screen import one_line, print_message, screen, styled
from holdfast_cli.output.text_table import TextTable
from holdfast_runtime.inspection.dead_letters import DeadLetter, LetterOrigin
from holdfast_runtime.inspection.letter_groups import LetterGroup, letter_groups

_LONGEST, _LONGEST_HEX = 500, 32
"""Characters of a text and bytes of what is none that are shown; JSON has all."""


def show_letters(letters: Iterable[DeadLetter], most: int, output: str, color: str) -> None:
    """Print the newest letters, the newest last."""
    counter = itertools.count()
    # Letters first: at their end, `zip` must not have taken a number.
    counted = (letter for letter, _ in zip(letters, counter))  # noqa: B905 - the counter has no end
    newest = nlargest(most, counted, key=lambda letter: (letter.written, letter.partition, letter.offset))
    console = screen(color)
    for letter in reversed(newest):
        if output == "json":
            sys.stdout.write(printable_json(_letter_as_json(letter)) + "\n")
        else:
            _print(letter, console)
    _say_rest(len(newest), next(counter), "the newest {} of {} letters")


def show_groups(letters: Iterable[DeadLetter], most: int, output: str, color: str) -> None:
    """Print how many letters have one reason and origin, the most first."""
    groups = letter_groups(letters)
    if output == "json":
        sys.stdout.writelines(f"{printable_json(json.dumps(_group_tree(group)))}\n" for group in groups[:most])
    elif groups:
        table = TextTable("LETTERS", "FIRST", "LAST", "EXAMPLE", "FROM", "REASON", right=("LETTERS",))
        for group in groups[:most]:
            times = event_moment(group.first), event_moment(group.last)
            example = f"{group.example.partition} offset {group.example.offset}"
            table.add(str(group.count), *times, example, _origin(group.origin), _shown(group.reason.encode()))
        table.print(screen(color))
    _say_rest(min(most, len(groups)), len(groups), "{} of {} groups")


def _say_rest(shown: int, count: int, of: str) -> None:
    if not count:
        print_message("holdfast: there are no such dead letters")
    elif shown < count:
        print_message(f"holdfast: {of.format(shown, count)}; -n {count} shows all")


def _print(letter: DeadLetter, console: Console) -> None:
    mark = ("  put back", "green") if letter.put_back else ""
    position = f"{letter.partition} offset {letter.offset}"
    console.print(styled((position, "bold"), f"  {event_moment(letter.written)}", mark))
    table = TextTable("", "", indent="  ")
    table.add("reason", _shown(letter.reason.encode()))
    table.add("from", _origin(letter.origin))
    table.add("key", _shown(letter.key))
    table.add("value", _shown(letter.value))
    table.print(console)


def _origin(origin: LetterOrigin) -> str:
    """Return where a letter comes from, as far as it says: `orders/1 offset 5, step priced, column price`."""
    stream = origin.stream or ""
    if origin.stream is not None and origin.partition is not None:
        stream = str(StreamPartition(origin.stream, origin.partition))
    record = f"{stream} offset {origin.offset}" if origin.offset is not None else stream
    step = f"step {origin.step}" if origin.step else ""
    column = f"column {origin.column}" if origin.column else ""
    return one_line(", ".join(filter(None, (record, step, column)))) or "-"


def _shown(content: bytes | None) -> str:
    """Return text on one line with escapes for what can't be printed, other bytes in hex; the start of what is long."""
    if content is None:
        return "-"
    text = _decoded(content)
    if text is None:
        more = " ..." if len(content) > _LONGEST_HEX else ""
        return f"{content[:_LONGEST_HEX].hex(' ')}{more} ({len(content)} bytes, no text)"
    more = f"... ({len(content)} bytes)" if len(text) > _LONGEST else ""
    return one_line(escaped(text[:_LONGEST])) + more


def _letter_as_json(letter: DeadLetter) -> str:
    members = {
        "deadLetter": _position(letter),
        "written": event_moment(letter.written),
        "reason": letter.reason,
        "origin": asdict(letter.origin),
        "key": _text(letter.key),
        "timestamp": None if letter.timestamp is None else row_moment(Micros(letter.timestamp)),
        "headers": [{"key": name, "value": _text(value)} for name, value in letter.headers],
        "putBack": letter.put_back,
    }
    is_text = letter.value is None or _decoded(letter.value) is not None
    value = value_as_json(letter.value) if is_text else json.dumps(_text(letter.value))
    return f'{json.dumps(members, ensure_ascii=False)[:-1]}, "value": {value}}}'


def _group_tree(group: LetterGroup) -> dict[str, Any]:
    origin = group.origin
    return {
        "letters": group.count,
        "first": event_moment(group.first),
        "last": event_moment(group.last),
        "reason": group.reason,
        "origin": {"stream": origin.stream, "step": origin.step, "column": origin.column},
        "example": _position(group.example),
    }


def _position(letter: DeadLetter) -> dict[str, Any]:
    return {"stream": letter.partition.stream, "partition": letter.partition.partition, "offset": letter.offset}


def _text(content: bytes | None) -> str | None:
    """Return text as it is, other bytes in base64, as `holdfast state get` shows them."""
    if content is None:
        return None
    text = _decoded(content)
    return f"base64:{base64.b64encode(content).decode()}" if text is None else text


def _decoded(content: bytes) -> str | None:
    """Return the text that these bytes are; None: they are no text."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
