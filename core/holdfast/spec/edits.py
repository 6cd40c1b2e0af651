"""What differs between what the state of a run was made by (`made_by`) and what makes it now.

Fields are compared as the texts that a run remembers, if both know them. Which inputs lie on which side of a join, and
which topics were read, is compared beside them. Imports nothing heavy: stores read records with it.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.spec.app import AppSpec

_LONGEST = 80
"""Characters of a value that are remembered as they are."""

SIDES = ("left", "right")
"""What a join has beside its fields: the step or stream it reads on a side, and the streams behind that."""
KEY, COUNT = "the key of its rows", "the number of its rows' partitions"
"""By what state is in tasks, which an object that keeps state has beside its fields."""
ORIGIN = "origin"
"""The streams whose partitions are meant. Where they are the same, their number may grow."""
READ = "read"
"""What a stream has beside its fields, if steps or tables read it."""


def edits(
    before: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, tuple[str, str]]]:
    """Return object -> field -> what it was and what it is, of the fields that both know and whose values differ."""
    edits_by_path = {
        path: dict(_edited(_with_topic(path, fields), _with_topic(path, now[path])))
        for path, fields in before.items()
        if path in now
    }
    return {path: fields for path, fields in edits_by_path.items() if fields}


def _edited(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    beside = {*SIDES, ORIGIN, *([COUNT] if before.get(ORIGIN) == now.get(ORIGIN) else [])}
    for name, value in before.items():
        if name not in beside and now.get(name, value) != value:
            yield name, (value, now[name])
    if all(side in fields for side in SIDES for fields in (before, now)):
        (left, right), (left_now, right_now) = (
            [{*fields[side].split(", ")} for side in SIDES] for fields in (before, now)
        )
        # More may lie before a join than did, but nothing may come to a side whose rows are kept on the other.
        if (left - right) & (right_now - left_now) or (right - left) & (left_now - right_now):
            yield (
                "from",
                (f"{joined_names(left)} on the left, {joined_names(right)} on the right", "the other way round"),
            )


def read_before(
    before: Mapping[str, Mapping[str, str]], spec: "AppSpec", now: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Return stream that is new -> the name that is gone, under which its topic was read."""
    path_by_topic = {
        (fields.get("system"), _topic(path, fields)): path
        for path, fields in before.items()
        if READ in fields and path not in now
    }
    fresh = {f"spec.streams[{name}]": name for name in streams_read(spec)}
    return {
        name: _name(path_by_topic[topic])
        for path, name in fresh.items()
        if path not in before and (topic := (now[path]["system"], _topic(path, now[path]))) in path_by_topic
    }


def step_path(state_name: str) -> str:
    """Return what `made_by` calls the step that keeps this state."""
    return f"spec.steps[{state_name}]"


def held_path(state_name: str) -> str:
    """Return what the types of what is held under this name are called."""
    return f"state of {state_name}"


def table_paths(table: str) -> tuple[str, str]:
    """Return what `made_by` calls a table, and what the types of its columns are called."""
    return f"spec.tables[{table}]", f"table {table}"


def streams_read(spec: "AppSpec") -> set[str]:
    """Return the streams that steps or tables read."""
    streams = {stream.name for stream in spec.streams}
    read = {name for step in spec.steps for name in step.inputs} & streams
    return read.union(*(table.sources or () for table in spec.tables))


def _with_topic(path: str, fields: Mapping[str, str]) -> Mapping[str, str]:
    """Return the fields with the topic of a stream that has its default: a name written down is no edit."""
    return {**fields, "topic": _topic(path, fields)} if "topic" in fields else fields


def _topic(path: str, fields: Mapping[str, str]) -> str:
    topic = fields.get("topic", "null")
    return topic if topic != "null" else text_of(_name(path))


def _name(path: str) -> str:
    return path.partition("[")[2].removesuffix("]")


def joined_names(names: Collection[str]) -> str:
    """Return names as one text."""
    return ", ".join(sorted(names))


def text_of(value: object) -> str:
    """Return a value as the text that is remembered of it."""
    return shortened(json.dumps(value, sort_keys=True, ensure_ascii=False))


def shortened(text: str) -> str:
    """Return the text as it is remembered: a long one by its beginning and a hash of all of it."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]}... (sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]})"
