"""What the state of a run was made by: every field of its app that state can't follow, with its value.

A run remembers this, so that whoever starts the app again, by whatever way it was edited, is told what does not fit
before anything runs. What counts is read from the cost of each field, so that no field can be forgotten; and an object
whose name or cost lets it go is not compared with one that is not there. Must not judge a change: `kept_state` does.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel

from holdfast.spec.fields import ChangeCost, change_of, items_of_list, object_of
from holdfast.spec.steps import Step

if TYPE_CHECKING:
    from holdfast.spec.app import AppSpec

_LEFT_OUT = {"runId", "was", "state.storageClass", "state.size"}
"""The run is what is compared; `was` says which object is. Where state lies does not make it: the API server refuses
other claims, which can't follow, and on one host a larger `size` is the cure of a store that is full."""
_LONGEST = 80
"""Characters of a value that are remembered as they are."""

_THERE, _ABSENT = "there", "absent"
"""The values of an object that need not be there, e.g. a verb."""
_SIDES = ("left", "right")
"""What a join has beside its fields: the step or stream it reads on a side, and the streams behind that."""
_MOST_STREAMS = 50
"""So many streams behind a side are remembered, or none of them."""
_READ = "read"
"""What a stream has beside its fields, if steps or tables read it."""


def made_by(spec: "AppSpec") -> dict[str, dict[str, str]]:
    """Return object -> field -> value, as text: `spec.steps[counts]` -> `aggregate.window` -> `"1m"`.

    A step is called what its state is called, so that it stays the same object under another name.
    """
    found: dict[str, dict[str, str]] = {}
    for path, field, value in _fields(spec, "spec", ""):
        found.setdefault(path, {})[field] = value
    for name in _read(spec):
        found[f"spec.streams[{name}]"][_READ] = "yes"
    behind = _streams_behind(spec)
    for step in spec.steps:
        if step.join is not None:
            found[step_path(_identity(step))] |= {
                side: _names({name, *streams} if len(streams := behind[name]) <= _MOST_STREAMS else {name})
                for side, name in zip(_SIDES, step.inputs, strict=False)
            }
    return found


def edits(
    before: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, tuple[str, str]]]:
    """Return object -> field -> what it was and what it is, of the fields that both know and whose values differ."""
    found = {path: dict(_edited(fields, now[path])) for path, fields in before.items() if path in now}
    return {path: fields for path, fields in found.items() if fields}


def _edited(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    for name, value in before.items():
        if name not in _SIDES and now.get(name, value) != value:
            yield name, (value, now[name])
    if all(side in fields for side in _SIDES for fields in (before, now)):
        (left, right), (left_now, right_now) = (
            [{*fields[side].split(", ")} for side in _SIDES] for fields in (before, now)
        )
        # More may lie before a join than did, but nothing may come to a side whose rows are kept on the other.
        if (left - right) & (right_now - left_now) or (right - left) & (left_now - right_now):
            yield "from", (f"{_names(left)} on the left, {_names(right)} on the right", "the other way round")


def read_before(
    before: Mapping[str, Mapping[str, str]], spec: "AppSpec", now: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Return stream that is new -> the name that is gone, under which its topic was read."""
    gone = {
        (fields.get("system"), _topic(path, fields)): path
        for path, fields in before.items()
        if _READ in fields and path not in now
    }
    fresh = {f"spec.streams[{name}]": name for name in _read(spec)}
    return {
        name: _name(gone[topic])
        for path, name in fresh.items()
        if path not in before and (topic := (now[path]["system"], _topic(path, now[path]))) in gone
    }


def step_path(state_name: str) -> str:
    """Return what `made_by` calls the step that keeps this state."""
    return f"spec.steps[{state_name}]"


def _fields(model: BaseModel, path: str, inside: str) -> Iterator[tuple[str, str, str]]:
    for attribute, field in type(model).model_fields.items():
        here, value = f"{inside}{field.alias or attribute}", getattr(model, attribute)
        kept = change_of(field) >= ChangeCost.NEW_RUN and here not in _LEFT_OUT
        if items_of_list(field) is not None:
            for item in value or ():
                yield from _fields(item, f"{path}.{here}[{_identity(item)}]", "")
        elif object_of(field) is not None:
            if kept and field.default is None:
                yield path, here, _ABSENT if value is None else _THERE
            if value is not None:
                yield from _fields(value, path, f"{here}.")
        elif kept:
            yield path, here, _text(value)


def _streams_behind(spec: "AppSpec") -> dict[str, frozenset[str]]:
    """Return stream or step -> the streams whose rows reach it; of steps that read each other in a circle, not all."""
    steps = {step.name: step.inputs for step in spec.steps}
    found = {stream.name: frozenset({stream.name}) for stream in spec.streams}
    waiting, begun = list(steps), set[str]()
    while waiting:
        name = waiting[-1]
        if name not in begun and name not in found:
            begun.add(name)
            waiting += [source for source in steps[name] if source not in begun and source not in found]
            continue
        found.setdefault(name, frozenset().union(*(found.get(source, ()) for source in steps.get(name, ()))))
        waiting.pop()
    return found


def _read(spec: "AppSpec") -> set[str]:
    streams = {stream.name for stream in spec.streams}
    read = {name for step in spec.steps for name in step.inputs} & streams
    return read.union(*(table.sources or () for table in spec.tables))


def _topic(path: str, fields: Mapping[str, str]) -> str:
    topic = fields.get("topic", "null")
    return topic if topic != "null" else _text(_name(path))


def _name(path: str) -> str:
    return path.partition("[")[2].removesuffix("]")


def _names(names: Collection[str]) -> str:
    return ", ".join(sorted(names))


def _identity(item: BaseModel) -> str:
    if isinstance(item, Step):
        return item.was or item.name
    return str(getattr(item, "name"))  # noqa: B009 - items of all such lists have names, and no common base has


def _text(value: object) -> str:
    return shortened(json.dumps(value, sort_keys=True, ensure_ascii=False))


def shortened(text: str) -> str:
    """Return the text as it is remembered: a long one by its beginning and a hash of all of it."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]}... (sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]})"
