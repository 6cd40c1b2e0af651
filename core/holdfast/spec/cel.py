"""The parts that rules of the API server are made of, as texts of CEL: names of lists, and the items that break a rule.

They keep within what the API server lets a rule cost. Must not know any rule.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Offenders:
    """Items that break a rule, each with what it names there."""

    items: str
    broken: str
    """CEL over an `item`."""
    names: str
    known: Mapping[str, str] = field(default_factory=dict)
    """Name -> CEL of a map that `broken` asks, as in a rule of `with_names`."""

    @property
    def found(self) -> str:
        """CEL for the items. A map: the limits of the API server admit neither a list nor `+` here."""
        items = f"self.{self.items}.transformMapEntry(i, item, {self.broken}, {{item.name: {self.names}}})"
        for name, lookup in reversed(tuple(self.known.items())):
            items = f"[{lookup}].map({name}, {items})[0]"
        return items


def naming(sentence: str, offenders: tuple[Offenders, ...]) -> str:
    """CEL for the sentence with the items that break its rule."""
    first, *other_offenders = offenders
    text = json.dumps(f"{sentence}: %s")  # which may have quotes: a text of CEL is written as one of JSON
    if not other_offenders:
        return f"{text}.format([{first.found}])"
    rest = naming(sentence, tuple(other_offenders))
    return f"[{first.found}].map(found, found.size() > 0 ? {text}.format([found]) : {rest})[0]"


def exactly_one(fields: tuple[str, ...]) -> str:
    """A rule: it has one of these fields, and no other of them."""
    return "[" + ", ".join(f"has(self.{field})" for field in fields) + "].exists_one(given, given)"


def one_of(verbs: tuple[str, ...]) -> str:
    """A rule over a step: it has one of these verbs."""
    return " || ".join(f"has(self.{verb})" for verb in verbs)


def with_names(field: str, rule: str, *, only: str = "") -> str:
    """A rule in which `name in <field>` asks for the names of a list, or of the items of it that `only` selects.

    The names go into a map, once: looking for each in the list exceeds the API server's limits at a thousand steps.
    `[x].all(y, ...)` is how a rule gives x the name y.
    """
    return f"[{names_of(field, only)}].all({field}, {rule})"


def names_of(field: str, only: str = "") -> str:
    """A map with the names of a list's items, or of those that `only` selects."""
    chosen = f"{only}, " if only else ""
    return f"self.{field}.transformMapEntry(i, each, {chosen}{{each.name: true}})"


def known_names(*fields: str, only: str = "") -> dict[str, str]:
    """What `Offenders` know of these lists."""
    return {field: names_of(field, only) for field in fields}


def former_names(field: str) -> str:
    """A map: former name -> name of the item that was called so."""
    return f"self.{field}.transformMapEntry(i, each, has(each.was), {{each.was: each.name}})"
