"""Rules over one node of a spec (a system, a step, a table), and the tolerant view of a spec that rules look through.

Each function yields where its rule is broken, below the node, and what to do. Rules must find their errors whatever
else is wrong: they see the node as read, what has the wrong shape looks empty because the model reports it, and
nothing here raises.
"""

from collections.abc import Collection, Iterator
from typing import Any

from holdfast.spec.steps import FAILING_VERBS, KEYED_VERBS, VERBS
from holdfast.spec.values import is_duration, millis


def fields_of(node: object) -> dict[Any, Any]:
    """The node's fields, none if it is no object. A field that is null is not given."""
    return {name: value for name, value in node.items() if value is not None} if isinstance(node, dict) else {}


def items_of(node: object, field: str) -> list[tuple[int, dict[Any, Any]]]:
    """Index and item of a list of objects."""
    value = fields_of(node).get(field)
    return (
        [(i, fields_of(item)) for i, item in enumerate(value) if isinstance(item, dict)]
        if isinstance(value, list)
        else []
    )


def names_of(node: object, field: str, having: str | None = None) -> frozenset[str]:
    """The names in a list of named objects, or of those that have a field."""
    items = (item for _, item in items_of(node, field) if having is None or having in item)
    # A name may be anything as long as nobody has looked at it, even something that no set can hold.
    return frozenset(item["name"] for item in items if isinstance(item.get("name"), str))


def strings_of(value: object) -> list[tuple[int, str]]:
    """Index and item of a list of strings."""
    return [(i, item) for i, item in enumerate(value) if isinstance(item, str)] if isinstance(value, list) else []


def has_name(value: object, names: Collection[Any]) -> bool:
    """Whether a value is one of these names."""
    return isinstance(value, str) and value in names


FieldPath = tuple[str | int, ...]
Broken = tuple[FieldPath, str]
"""Where a rule is broken, below the node it belongs to, and what to do."""


def one_kind(system: object) -> Iterator[Broken]:
    """A system is exactly one of its kinds."""
    kinds = [kind for kind in ("kafka", "log", "generator") if kind in fields_of(system)]
    if len(kinds) != 1:
        found = " and ".join(kinds) if kinds else "none"
        yield (), f"a system is exactly one of kafka, log, generator; found {found}"


def one_verb(step: object) -> Iterator[Broken]:
    """A step has exactly one verb."""
    verbs = [verb for verb in VERBS if verb in fields_of(step)]
    if len(verbs) != 1:
        found = " and ".join(verbs) if verbs else "none"
        hint = "" if verbs else "; a verb without settings is written merge: {}"
        yield (), f"a step has exactly one verb; found {found} (verbs: {', '.join(VERBS)}{hint})"


def one_on(verb: object) -> Iterator[Broken]:
    """The columns of a join or look-up are given once."""
    fields = fields_of(verb)
    if "on" in fields and "true" in fields:
        yield ("true",), "this is what YAML 1.1 makes of an unquoted on, which is here too; leave one out"


def arity(step: object) -> Iterator[Broken]:
    """A join reads two inputs, a merge any number, every other step one."""
    fields = fields_of(step)
    inputs = fields.get("from")
    if not isinstance(inputs, list) or not inputs:
        return
    if "join" in fields:
        if len(inputs) != 2:  # noqa: PLR2004 - left and right
            yield ("from",), f"join reads exactly two inputs, left and right; found {len(inputs)}"
    elif "merge" not in fields and len(inputs) != 1:
        yield (
            ("from",),
            f"only join and merge read several inputs; put a merge step before this one (found {len(inputs)})",
        )


def windows(aggregate: object) -> Iterator[Broken]:
    """Windows, slides and sessions fit together."""
    window, slide, session = (fields_of(aggregate).get(field) for field in ("window", "slide", "session"))
    if window is not None and session is not None:
        yield ("session",), "window and session exclude each other"
    if slide is not None and window is None:
        yield ("slide",), "slide needs window"
    if _is_longer(slide, window):
        yield ("slide",), f"slide {slide} is longer than window {window}, so rows between windows would be lost"


def _is_longer(one: object, other: object) -> bool:
    """Whether both are durations, and the first is longer."""
    # A file may hold any text here, even numbers that Python refuses to read.
    return is_duration(one) and is_duration(other) and millis(str(one)) > millis(str(other))


def table_feed(table: object) -> Iterator[Broken]:
    """What a table declares fits how it is fed."""
    fields = fields_of(table)
    if "sources" in fields:
        if "schema" in fields:
            yield ("schema",), "a table with sources has the columns of its sources; leave schema out"
        return
    if fields.get("distribution") == "Broadcast":
        yield ("distribution",), "a Broadcast table is fed by side inputs: name them in sources"
    if fields.get("versioned") is True:
        yield ("versioned",), "a versioned table is fed by a side input: name it in sources"
    if "select" in fields:
        yield ("select",), "select projects what sources bring; a table written by toTable steps takes rows as they are"


def dead_letter(stream: object) -> Iterator[Broken]:
    """A dead letter stream is named where, and only where, it is used."""
    fields = fields_of(stream)
    wants = [field for field in ("onDecodeError", "onUnwritable") if fields.get(field) == "DeadLetter"]
    if wants and "deadLetter" not in fields:
        yield (wants[0],), "DeadLetter needs a stream to write to: set deadLetter"
    if not wants and "deadLetter" in fields:
        yield ("deadLetter",), "deadLetter is used only with onDecodeError: DeadLetter or onUnwritable: DeadLetter"
    if "deadLetter" in fields and fields["deadLetter"] == fields.get("name"):
        yield ("deadLetter",), "a stream can't be its own dead letter stream"


def step_dead_letter(step: object) -> Iterator[Broken]:
    """A step that may fail on a row says where such rows go, where, and only where, they are to go on."""
    fields = fields_of(step)
    if "onError" in fields and not any(verb in fields for verb in FAILING_VERBS):
        yield ("onError",), f"only steps with {', '.join(FAILING_VERBS)} can fail on a row; leave onError out"
    wants = fields.get("onError") == "DeadLetter"
    if wants and "deadLetter" not in fields:
        yield ("onError",), "DeadLetter needs a stream to write to: set deadLetter"
    if not wants and "deadLetter" in fields:
        yield ("deadLetter",), "deadLetter is used only with onError: DeadLetter"


def was_kept(step: object) -> Iterator[Broken]:
    """A former name is for steps that keep state."""
    fields = fields_of(step)
    if "was" in fields and not any(verb in fields for verb in KEYED_VERBS):
        yield ("was",), f"was is the name under which state is kept, for {', '.join(KEYED_VERBS)}; leave it out here"


_SECRET_WORDS = ("password", "secret", "key.pem", "jaas")


def no_secrets(kafka: object) -> Iterator[Broken]:
    """No secret stands in a StreamApp."""
    for key in fields_of(fields_of(kafka).get("config")):
        if isinstance(key, str) and any(word in key for word in _SECRET_WORDS):
            yield (
                ("config", key),
                "a secret does not belong in a StreamApp: put this setting into the Secret secretName",
            )


def backoff_order(backoff: object) -> Iterator[Broken]:
    """The first wait is not longer than the longest."""
    initial, most = fields_of(backoff).get("initial", "5s"), fields_of(backoff).get("max", "5m")
    if _is_longer(initial, most):
        at = "initial" if "initial" in fields_of(backoff) else "max"
        yield (at,), f"the first wait {initial} is longer than the longest, {most}"


def claims(state: object) -> Iterator[Broken]:
    """Only claims have a storage class."""
    fields = fields_of(state)
    if "storageClass" in fields and fields.get("location", "Claim") != "Claim":
        yield ("storageClass",), "storageClass is used only with location: Claim"
