"""What the state of a run was made by: every field of its app that state can't follow, with its value.

A run remembers this, so that whoever starts the app again, by whatever way it was edited, is told what does not fit
before anything runs. What counts is read from the cost of each field, so that no field can be forgotten; and an object
whose name or cost lets it go is not compared with one that is not there. Must not judge a change: `kept_state` does.
"""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel

from holdfast.spec.edits import READ, SIDES, joined_names, step_path, streams_read, text_of
from holdfast.spec.fields import ChangeCost, change_of, items_of_list, object_of
from holdfast.spec.kept_streams import kept_spec
from holdfast.spec.steps import Step

if TYPE_CHECKING:
    from holdfast.spec.app import AppSpec

_LEFT_OUT = {"runId", "was", "state.storageClass", "state.size"}
"""The run is what is compared; `was` says which object is. Where state lies does not make it: the API server refuses
other claims, which can't follow, and on one host a larger `size` is the cure of a store that is full."""
_THERE, _ABSENT = "there", "absent"
"""The values of an object that need not be there, e.g. a verb."""
_MOST_STREAMS = 50
"""So many streams behind a side are remembered, or none of them."""


def made_by(spec: "AppSpec") -> dict[str, dict[str, str]]:
    """Return object -> field -> value, as text: `spec.steps[counts]` -> `aggregate.window` -> `"1m"`.

    A step is called what its state is called, and a stream what the run calls it, so that they stay the same objects
    under other names.
    """
    spec = kept_spec(spec)
    values_by_path: dict[str, dict[str, str]] = {}
    for path, field, value in _fields(spec, "spec", ""):
        values_by_path.setdefault(path, {})[field] = value
    for name in streams_read(spec):
        values_by_path[f"spec.streams[{name}]"][READ] = "yes"
    for table in spec.tables:
        values_by_path[f"spec.tables[{table.name}]"]["sources"] = text_of(table.sources)
    behind = _streams_behind(spec)
    for step in spec.steps:
        if step.join is not None:
            values_by_path[step_path(_identity(step))] |= {
                side: joined_names({name, *streams} if len(streams := behind[name]) <= _MOST_STREAMS else {name})
                for side, name in zip(SIDES, step.inputs, strict=False)
            }
    return values_by_path


class _Field(NamedTuple):
    """What is asked of a field for each object that has it."""

    attribute: str
    name: str
    costly: bool
    optional: bool
    is_list: bool
    is_object: bool


@cache
def _layout(model: type[BaseModel]) -> tuple[_Field, ...]:
    return tuple(
        _Field(
            attribute,
            field.alias or attribute,
            change_of(field) >= ChangeCost.NEW_RUN,
            field.default is None,
            items_of_list(field) is not None,
            object_of(field) is not None,
        )
        for attribute, field in model.model_fields.items()
    )


def _fields(model: BaseModel, path: str, inside: str) -> Iterator[tuple[str, str, str]]:
    for field in _layout(type(model)):
        field_name, value = f"{inside}{field.name}", getattr(model, field.attribute)
        recorded = field.costly and field_name not in _LEFT_OUT
        if field.is_list:
            for item in value or ():
                yield from _fields(item, f"{path}.{field_name}[{_identity(item)}]", "")
        elif field.is_object:
            if recorded and field.optional:
                yield path, field_name, _ABSENT if value is None else _THERE
            if value is not None:
                yield from _fields(value, path, f"{field_name}.")
        elif recorded:
            yield path, field_name, text_of(value)


def _streams_behind(spec: "AppSpec") -> dict[str, frozenset[str]]:
    """Return stream or step -> the streams whose rows reach it; of steps that read each other in a circle, not all."""
    steps = {step.name: step.inputs for step in spec.steps}
    streams_behind = {stream.name: frozenset({stream.name}) for stream in spec.streams}
    waiting, visited = list(steps), set[str]()
    while waiting:
        name = waiting[-1]
        if name not in visited and name not in streams_behind:
            visited.add(name)
            waiting += [source for source in steps[name] if source not in visited and source not in streams_behind]
            continue
        streams_behind.setdefault(
            name, frozenset().union(*(streams_behind.get(source, ()) for source in steps.get(name, ())))
        )
        waiting.pop()
    return streams_behind


def _identity(item: BaseModel) -> str:
    if isinstance(item, Step):
        return item.was or item.name
    return str(getattr(item, "name"))  # noqa: B009 - items of all such lists have names, and no common base has
