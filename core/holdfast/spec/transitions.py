"""Rules for the API server over updates: what may not change while state is kept, by the cost of each field's change.

A field that costs a new run changes only together with `spec.runId`. An absent field and its default are equal;
items of a named list are compared by name, and their coming and going is the list's own matter. Must not name a
particular field.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from holdfast.spec.app import AppSpec
from holdfast.spec.fields import ChangeCost, change_of, items_of_list, kind_of, name_in_files, object_of

_CEL_WORDS = frozenset(
    (
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    )
)  # fmt: skip
# What stands for an absent field without a default. No field of such a type may have this as its value.
_NOTHING: dict[object, str] = {str: "''", int: "0", tuple: "[]"}
_OLD, _NEW = "oldSelf", "self"
_NEW_RUN = (
    f"(has({_NEW}.runId) ? {_NEW}.runId : '{AppSpec.model_fields['run_id'].default}')"
    f" != (has({_OLD}.runId) ? {_OLD}.runId : '{AppSpec.model_fields['run_id'].default}')"
)


_CHEAPER = {
    "steps": ", or give the step another name, and it alone starts from nothing",
    "tables": ", or give the table another name, and it alone is filled anew",
}
"""Named objects are compared with those of their names."""


@dataclass(frozen=True, slots=True)
class TransitionRule:
    """What state cannot follow in the items of a named list, or in the rest of the spec."""

    items: str
    """The list; empty for the rest."""
    fields: tuple[str, ...]
    """Their paths as people write them, e.g. `spec.streams[].key`."""
    cel: str
    """The rule, over the spec and its former self."""
    changed: str
    """CEL for the fields that have changed, of items by their names."""

    @property
    def naming(self) -> str:
        """CEL for the sentence with what has changed."""
        return f"{json.dumps(f'{self.message}: %s')}.format([{self.changed}])"

    @property
    def message(self) -> str:
        """The sentence, as the API server prints it."""
        where = ".".join(filter(None, ("spec", self.items)))
        return f"state cannot follow this change of {where}: set a new spec.runId{_CHEAPER.get(self.items, '')}"


@dataclass(frozen=True, slots=True)
class _PathInSpec:
    """The path of a field: in which named list it is, if any, and inside which objects."""

    shown: str
    """Below the item, or the spec, with a dot at its end."""
    items_of: str = ""
    """The named list, as an expression below the spec."""
    list_may_be_absent: bool = False
    inside: tuple[str, ...] = ()
    """The objects from the item, or the spec, down to the field, escaped for CEL."""
    shared_depth: int = 0
    """How many of them a rule may compare only where both sides have them."""
    optional_depths: tuple[int, ...] = ()
    """Lengths of `inside` at which an object may be absent."""

    def into(self, name: str, field: FieldInfo) -> "_PathInSpec":
        """The path of the fields of an object."""
        inside = (*self.inside, cel_name(name))
        optional_depths = self.optional_depths if field.is_required() else (*self.optional_depths, len(inside))
        # Absent with a default: its fields have theirs. Absent without one: there is nothing to compare.
        shared_depth = len(inside) if field.default is None else self.shared_depth
        return replace(
            self,
            shown=f"{self.shown}{name}.",
            inside=inside,
            optional_depths=optional_depths,
            shared_depth=shared_depth,
        )

    def both_have(self, root: str) -> str:
        """Whether there is anything to compare; empty if always."""
        return " && ".join(_has(root, self.inside[:n]) for n in self.optional_depths if n <= self.shared_depth)

    def given(self, root: str, name: str, *, optional: bool) -> str:
        """Whether a field is written down; empty if always."""
        path = (*self.inside, cel_name(name))
        depths = [n for n in self.optional_depths if n > self.shared_depth] + [len(path)] * optional
        return " && ".join(_has(root, path[:n]) for n in depths)


@dataclass(frozen=True, slots=True)
class _Compared:
    """A field whose change costs a new run, and how it is compared."""

    path: _PathInSpec
    name: str
    """Below the item, or the spec."""
    value: "_Value"

    def both_have(self, new: str, old: str) -> str:
        """CEL for whether there is anything to compare; empty if always."""
        return " && ".join(filter(None, (self.path.both_have(new), self.path.both_have(old))))


def transition_rules() -> tuple[TransitionRule, ...]:
    """One rule for each named list, and one for the rest of the spec; `runId` itself has none.

    A rule for each field would be read more easily, and costs the API server several times as much at each write of an
    app, also of its status.
    """
    by_list: dict[str, list[_Compared]] = {}
    for field in _compared(AppSpec, _PathInSpec("")):
        if (field.path.items_of, field.name) != ("", "runId"):
            by_list.setdefault(field.path.items_of, []).append(field)
    return tuple(_rule_of_items(items, fields) if items else _rule_of_spec(fields) for items, fields in by_list.items())


def _compared(model: type[BaseModel], path: _PathInSpec) -> Iterator[_Compared]:
    for attribute, field in model.model_fields.items():
        name = name_in_files(attribute, field)
        costs_run = change_of(field) is ChangeCost.NEW_RUN
        items, inner = items_of_list(field), object_of(field)
        if items is not None:
            if path.inside or path.items_of or costs_run:
                message = f"a named list inside of {path.shown}, or one whose names may not change, is not provided for"
                raise NotImplementedError(message)
            yield from _compared(items, _PathInSpec("", name, list_may_be_absent=not field.is_required()))
        elif inner is not None:
            if costs_run and field.default is None:
                yield _Compared(path, f"{path.shown}{name}", _presence(path, name))
            yield from _compared(inner, path.into(name, field))
        # Items are matched by name, so a name never changes.
        elif costs_run and not (path.items_of and name == "name" and not path.inside):
            yield _Compared(path, f"{path.shown}{name}", _value(path, name, field))


@dataclass(frozen=True, slots=True)
class _Value:
    """What of a field is compared, with `ROOT` for the object it is in."""

    text: str

    def of(self, root: str) -> str:
        return self.text.replace("ROOT", root)


def _rule_of_spec(fields: Sequence[_Compared]) -> TransitionRule:
    names = tuple(f"spec.{field.name}" for field in fields)
    return TransitionRule("", names, f"{_NEW_RUN} || ({_same(fields, _NEW, _OLD)})", _differing(fields, _NEW, _OLD))


def _rule_of_items(items: str, fields: Sequence[_Compared]) -> TransitionRule:
    old, new = f"{_OLD}.{items}", f"{_NEW}.{items}"
    absent = f"!has({new}) || !has({old}) || " if fields[0].path.list_may_be_absent else ""
    # The former items go into a map once; looking each up in the list would exceed the API server's limits.
    former = f"[{old}.transformMapEntry(i, each, {{each.name: each}})]"
    same = f"!(each.name in was) || [was[each.name]].all(former, {_same(fields, 'each', 'former')})"
    differing = f"[was[each.name]].map(former, {_differing(fields, 'each', 'former')})[0]"
    return TransitionRule(
        items,
        tuple(f"spec.{items}[].{field.name}" for field in fields),
        # Mostly only the status is written.
        f"{absent}{new} == {old} || {_NEW_RUN} || {former}.all(was, {new}.all(each, {same}))",
        f"{former}.map(was, {new}.transformMapEntry(i, each, each.name in was, {{each.name: {differing}}})"
        f".transformMapEntry(name, fields, fields.size() > 0, {{name: fields}}))[0]",
    )


def _same(fields: Sequence[_Compared], new: str, old: str) -> str:
    """CEL for whether all these fields are the same."""
    parts = []
    for have, inside in groupby(fields, lambda field: field.both_have(new, old)):
        equal = " && ".join(f"{field.value.of(new)} == {field.value.of(old)}" for field in inside)
        parts.append(f"(!({have}) || ({equal}))" if have else equal)
    return " && ".join(parts)


def _differing(fields: Sequence[_Compared], new: str, old: str) -> str:
    """CEL for the names of those that are not."""
    names = []
    for field in fields:
        have = field.both_have(new, old)
        differs = f"{f'{have} && ' if have else ''}{field.value.of(new)} != {field.value.of(old)}"
        names.append(f"{differs} ? '{field.name}' : ''")
    return f"[{', '.join(names)}].filter(name, name != '')"


def _presence(path: _PathInSpec, name: str) -> _Value:
    presence = path.given("ROOT", name, optional=True)
    return _Value(f"({presence})" if " && " in presence else presence)


def _value(path: _PathInSpec, name: str, field: FieldInfo) -> _Value:
    value = ".".join(("ROOT", *path.inside, cel_name(name)))
    presence = path.given("ROOT", name, optional=not field.is_required())
    return _Value(f"({presence} ? {value} : {_default(field)})" if presence else value)


def _default(field: FieldInfo) -> str:
    if field.default is None:
        return _NOTHING[kind_of(field.annotation)]
    if isinstance(field.default, str):
        return f"'{field.default}'"
    return str(field.default).lower()


def _has(root: str, path: tuple[str, ...]) -> str:
    return f"has({'.'.join((root, *path))})"


def cel_name(name: str) -> str:
    """The name of a field, as CEL wants it where it is a word of CEL."""
    return f"__{name}__" if name in _CEL_WORDS else name
