"""Rules for the API server over updates: what may not change while state is kept, by the cost of each field's change.

A field that costs a new run changes only together with `spec.runId`. An absent field and its default are equal;
items of a named list are compared by name, and their coming and going is the list's own matter. Must not name a
particular field.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

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
    "spec.steps[]": "; or give the step another name, and it alone starts from nothing",
    "spec.tables[]": "; or give the table another name, and it alone is filled anew",
}
"""Named objects are compared with those of their names."""


@dataclass(frozen=True, slots=True)
class TransitionRule:
    """One field that state cannot follow."""

    field: str
    """Its path as people write it, e.g. `spec.streams[].key`."""
    cel: str
    """The rule, over the spec and its former self."""
    changed: str = ""
    """CEL for a map of the items that have changed; empty for a field of the spec itself, which needs no name."""

    @property
    def naming(self) -> str | None:
        """CEL for the sentence with the items that have changed."""
        return f"{json.dumps(f'{self.message}: %s')}.format([{self.changed}])" if self.changed else None

    @property
    def message(self) -> str:
        """The sentence, as the API server prints it."""
        cheaper = next((text for path, text in _CHEAPER.items() if self.field.startswith(path)), "")
        return f"{self.field} can change only with a new spec.runId: state cannot follow{cheaper}"


@dataclass(frozen=True, slots=True)
class _PathInSpec:
    """The path of a field: in which named list it is, if any, and inside which objects."""

    shown: str
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
            shown=f"{self.shown}.{name}",
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


def transition_rules() -> tuple[TransitionRule, ...]:
    """A rule for each field of the spec whose change costs a new run; `runId` itself has none."""
    return tuple(rule for rule in _rules(AppSpec, _PathInSpec("spec")) if rule.field != "spec.runId")


def _rules(model: type[BaseModel], path: _PathInSpec) -> Iterator[TransitionRule]:
    for attribute, field in model.model_fields.items():
        name = name_in_files(attribute, field)
        costs_run = change_of(field) is ChangeCost.NEW_RUN
        items, inner = items_of_list(field), object_of(field)
        if items is not None:
            if path.inside or path.items_of:
                message = f"a named list inside of {path.shown} is not provided for"
                raise NotImplementedError(message)
            if costs_run:
                yield TransitionRule(f"{path.shown}.{name}", _same_names(name))
            inside = _PathInSpec(f"{path.shown}.{name}[]", name, list_may_be_absent=not field.is_required())
            yield from _rules(items, inside)
        elif inner is not None:
            if costs_run and field.default is None:
                yield _rule(path, name, _presence(path, name))
            yield from _rules(inner, path.into(name, field))
        # Items are matched by name, so a name never changes.
        elif costs_run and not (path.items_of and name == "name" and not path.inside):
            yield _rule(path, name, _value(path, name, field))


@dataclass(frozen=True, slots=True)
class _Value:
    """What of a field is compared, with `ROOT` for the object it is in."""

    text: str

    def of(self, root: str) -> str:
        return self.text.replace("ROOT", root)


def _rule(path: _PathInSpec, name: str, value: _Value) -> TransitionRule:
    shown = f"{path.shown}.{name}"
    if not path.items_of:
        have = " && ".join(filter(None, (path.both_have(_NEW), path.both_have(_OLD))))
        unless = f"!({have}) || " if have else ""
        return TransitionRule(shown, f"{_NEW_RUN} || {unless}{value.of(_NEW)} == {value.of(_OLD)}")
    old, new = f"{_OLD}.{path.items_of}", f"{_NEW}.{path.items_of}"
    absent = f" || !has({new}) || !has({old})" if path.list_may_be_absent else ""
    have = path.both_have("each")
    only, unless, guard = (f"{have}, ", f"!({have}) || ", f"{have} && ") if have else ("", "", "")
    # The former items go into a map once; looking each up in the list would exceed the API server's limits.
    former = f"[{old}.transformMapEntry(i, each, {only}{{each.name: {value.of('each')}}})]"
    field, differs = shown.partition("[].")[2], f"{guard}each.name in was && was[each.name] != {value.of('each')}"
    return TransitionRule(
        shown,
        f"{_NEW_RUN}{absent} || {former}.all(was,"
        f" {new}.all(each, {unless}!(each.name in was) || was[each.name] == {value.of('each')}))",
        f"{former}.map(was, {new}.transformMapEntry(i, each, {differs}, {{each.name: '{field}'}}))[0]",
    )


def _same_names(name: str) -> str:
    old, new = f"{_OLD}.{name}", f"{_NEW}.{name}"
    return (
        f"{_NEW_RUN} || ({new}.size() == {old}.size()"
        f" && {new}.all(each, {old}.exists(former, former.name == each.name)))"
    )


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
