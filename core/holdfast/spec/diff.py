"""Differences between two versions of a StreamApp and their cost; and the fingerprint of what needs a restart.

Both sides are parsed apps, so a default left out and the same default written down are equal; named objects are
matched by name, and adding or removing one costs what its list says. The fingerprint tells by one short text whether
a running attempt has the spec it should have: a field that is applied live does not change it, nor does a default
written down or a release with new fields. Must not know which state an app has, or which attempt runs what.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from holdfast.reasons import Reason
from holdfast.spec.app import AppSpec, StreamApp
from holdfast.spec.fields import ChangeCost, ValueModel, change_of
from holdfast.spec.kept_state import state_name
from holdfast.spec.steps import Step
from holdfast.spec.streams import Stream, Table
from holdfast.spec.verbs import KEYED_VERBS, STREAM_VERBS


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field with another value."""

    path: str
    """`spec.steps[counts].aggregate.window`."""
    old: object
    """None: it was not there."""
    new: object
    """None: it is not there any more."""
    cost: ChangeCost
    note: str = ""
    """What it means beyond its cost."""
    reason: Reason | None = None
    """Why a run of the app would refuse it, whatever it costs."""


@dataclass(frozen=True, slots=True)
class Diff:
    """All changes between two versions of an app."""

    changes: tuple[FieldChange, ...]

    @property
    def cost(self) -> ChangeCost | None:
        """The dearest of them; None where nothing changes."""
        return max((change.cost for change in self.changes), default=None)

    @property
    def new_run(self) -> bool:
        """Whether the change asks for a new run, with empty state."""
        return any(change.path == "spec.runId" for change in self.changes)

    @property
    def refused(self) -> tuple[FieldChange, ...]:
        """Changes that can't be applied as they are: forbidden ones, and those that need a runId nobody changed."""
        return tuple(
            change
            for change in self.changes
            if change.cost is ChangeCost.FORBIDDEN
            or (change.cost is ChangeCost.NEW_RUN and not self.new_run)
            or change.reason is not None
        )

    def with_refusals(self, refusals: Iterable[FieldChange]) -> "Diff":
        """The same, with what a run says to changes of these paths."""
        refusal_by_path = {refusal.path: refusal for refusal in refusals}
        changes = [
            replace(change, cost=max(change.cost, refusal.cost), note=refusal.note, reason=refusal.reason)
            if (refusal := refusal_by_path.pop(change.path, None)) is not None
            else change
            for change in self.changes
        ]
        return Diff((*changes, *refusal_by_path.values()))


def diff(old: StreamApp, new: StreamApp) -> Diff:
    """What changes from old to new, in the order of the model's fields."""
    return Diff(tuple(_models(old, new, "")))


def _models(old: BaseModel, new: BaseModel, path: str) -> Iterator[FieldChange]:
    for name, field in type(old).model_fields.items():
        field_path = f"{path}.{field.alias or name}".removeprefix(".")
        yield from _values(getattr(old, name), getattr(new, name), field_path, change_of(field))


def _values(old: Any, new: Any, path: str, cost: ChangeCost) -> Iterator[FieldChange]:
    if old == new:
        return
    if isinstance(old, BaseModel) and type(old) is type(new) and not isinstance(old, ValueModel):
        yield from _models(old, new, path)
    elif _named(old) or _named(new):
        yield from _named_lists(old, new, path, cost)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            yield from _values(old.get(key), new.get(key), f"{path}[{key}]", cost)
    else:
        yield FieldChange(path, _plain(old), _plain(new), cost)


def _named(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and all(hasattr(item, "name") for item in value)


def _named_lists(old: Any, new: Any, path: str, cost: ChangeCost) -> Iterator[FieldChange]:
    before, after = ({item.name: item for item in side} for side in (old, new))
    later = renamed(before, after)
    for name in dict.fromkeys([*before, *after]):
        item_path = f"{path}[{name}]"
        if name in before and name in after:
            yield from _values(before[name], after[name], item_path, cost)
        elif name in later:
            item = after[later[name]]
            follows = f"the state of {name} follows" if isinstance(item, Step) else f"it is read on where {name} was"
            yield FieldChange(f"{item_path}.name", name, item.name, ChangeCost.RESTART, follows)
            yield from _models(before[name], _as_before(before[name], item), item_path)
        elif name in later.values():
            continue
        else:
            old_item, new_item = before.get(name), after.get(name)
            note = "" if old_item is None else _given_up(old_item)
            yield FieldChange(item_path, _plain(old_item), _plain(new_item), cost, note)


def renamed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """Former name -> name of steps and streams that say what they were."""
    removed_names = {_kept_name(model): name for name, model in before.items() if name not in after}
    new = ((name, model) for name, model in after.items() if isinstance(model, Step | Stream) and name not in before)
    return {removed_names[model.was]: name for name, model in new if model.was in removed_names}


def _kept_name(item: BaseModel) -> str:
    if isinstance(item, Step):
        return state_name(item)
    name: str = getattr(item, "was", None) or getattr(item, "name")  # noqa: B009 - items of lists have names
    return name


def _as_before(old: Any, new: Any) -> Any:
    """A renamed item under its former name."""
    former = {"name": old.name, "was": old.was}
    if isinstance(old, Stream):
        topic = new.topic or new.name
        former["topic"] = old.topic if topic == (old.topic or old.name) else topic
    return new.model_copy(update=former)


def _given_up(removed: BaseModel) -> str:
    """What is lost with a named object that is removed or renamed."""
    if isinstance(removed, Step) and removed.verb in KEYED_VERBS:
        return f"the state of {removed.name} is given up"
    if isinstance(removed, Step) and removed.verb in STREAM_VERBS:
        return f"rows not yet read from the intermediate stream of {removed.name} are given up"
    if isinstance(removed, Stream):
        return f"the position up to which {removed.name} was read is given up"
    return f"what table {removed.name} holds is given up" if isinstance(removed, Table) else ""


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def fingerprint(spec: AppSpec) -> str:
    """Equal for specs between which nothing has to be restarted."""
    text = json.dumps(_kept(spec), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _kept(value: Any) -> Any:
    if isinstance(value, ValueModel):
        return value.model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, BaseModel):
        return dict(_fields(value))
    if isinstance(value, tuple):
        # Named objects may stand in any order.
        values = [_kept(one) for one in value]
        named = bool(values) and all(isinstance(one, dict) and "name" in one for one in values)
        return sorted(values, key=lambda one: str(one["name"])) if named else values
    return value


def _fields(model: BaseModel) -> Iterator[tuple[str, Any]]:
    for name, field in type(model).model_fields.items():
        value, usual = getattr(model, name), field.get_default(call_default_factory=True)
        if isinstance(value, BaseModel):
            inner_fields = _kept(value)
            # `log: {}` says something, `restart: {}` does not.
            if inner_fields or usual is None:
                yield name, inner_fields
        elif value != usual and change_of(field) is not ChangeCost.LIVE:
            yield name, _kept(value)
