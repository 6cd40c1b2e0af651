"""Parsing of a StreamApp: from a tree of a file or an API server to the model, or to every error there is in it.

Errors say the field's path, the value and what to do; who knows the text they came from adds line and column. How
large a tree may be is counted first, without recursion, because what comes behind may recurse and copy. Must not
read files.
"""

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from holdfast.errors import UserActionError
from holdfast.one_line import printable
from holdfast.spec.app import StreamApp
from holdfast.spec.fields import items_of_list, name_in_files, object_of, value_of
from holdfast.spec.rule_checks import FieldPath
from holdfast.spec.rules import RULES
from holdfast.spec.values import IN_WORDS
from holdfast.suggest import did_you_mean, nearest

_MAX_SHOWN = 60
_MAX_MESSAGE = 600
MOST_ERRORS = 200
"""What nobody reads to the end must not take minutes to find."""
_ON = {"on", "true"}
"""What people call the columns of a join, as SQL does, and what kubectl makes of it."""
_KINDS = {
    "string_type": "must be text; put it in quotes",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "int_type": "must be a whole number without quotes",
    "bool_type": "must be true or false",
    "missing": "is required",
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field."""

    path: FieldPath
    value: object
    message: str

    @property
    def dotted(self) -> str:
        """The path as people write it: `spec.steps[2].join.by`."""
        text = "".join(f"[{part}]" if isinstance(part, int) else f".{_line(str(part))}" for part in self.path)
        return text.removeprefix(".") or "(the whole file)"

    @property
    def shown(self) -> str:
        """The value as JSON writes it, shortened to what fits on a line."""
        try:
            text = json.dumps(self.value, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            text = f"a {type(self.value).__name__}"  # no tree of a file, but whoever calls is to learn of it
        return _line(text)

    def __str__(self) -> str:
        return f"{self.dotted}: {self.message}"


def _line(text: str, most: int = _MAX_SHOWN) -> str:
    """The text as it may stand in a message: one line that does nothing to a terminal, cut where it is long."""
    text = text if len(text) <= most else text[: most - 1] + "…"
    return printable(text)


class SpecInvalidError(UserActionError):
    """A StreamApp that breaks its schema or its rules; carries every error found, or the first of very many."""

    def __init__(self, errors: tuple[FieldError, ...]) -> None:
        self.errors = errors
        super().__init__("\n".join(str(error) for error in errors))


def parse_app(tree: object) -> StreamApp:
    """The app in this tree; raises `SpecInvalidError` with all errors at once, in the order of the file's fields."""
    if (large := too_large(tree)) is not None:
        path, message = large
        raise SpecInvalidError((FieldError(path, None, message),))
    app: StreamApp | None = None
    errors: Iterator[FieldError] = iter(())
    try:
        app = StreamApp.model_validate(tree, by_alias=True, by_name=False)
    except ValidationError as error:
        errors = _field_errors(error)
    errors = chain(errors, _rule_errors(tree.get("spec") if isinstance(tree, dict) else None))
    shown_errors = tuple(islice(_without_repeats(errors), MOST_ERRORS + 1))
    if len(shown_errors) > MOST_ERRORS:
        more = FieldError(
            (), None, f"there are more than {MOST_ERRORS} errors; the others are told when these are gone"
        )
        shown_errors = (*shown_errors[:MOST_ERRORS], more)
    if app is None or shown_errors:
        raise SpecInvalidError(shown_errors)
    return app


def _field_errors(error: ValidationError) -> Iterator[FieldError]:
    # Each is compared with all others below. Those behind are not needed: nobody is told so many.
    details = error.errors(include_url=False)[: 2 * MOST_ERRORS]
    paths = [detail["loc"] for detail in details]
    for detail in details:
        path = detail["loc"]
        # A list whose items are wrong is also counted as too short, by the number of its good items.
        if detail["type"] == "too_short" and any(other[: len(path)] == path and other != path for other in paths):
            continue
        yield FieldError(path=_clean(path), value=_as_read(detail["input"]), message=_message(detail))


def errors_of_part(error: ValidationError) -> tuple[FieldError, ...]:
    """What is wrong with a part of an app that was built by itself, as Python builds it."""
    return tuple(_field_errors(error))


def _as_read(value: object) -> object:
    """The value as the file has it: the model makes tuples of its lists."""
    return list(value) if isinstance(value, tuple) else value


def _clean(path: FieldPath) -> FieldPath:
    return tuple(part for part in path if part != "[key]")


def _message(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    value = FieldError((), _as_read(detail["input"]), "").shown
    if kind == "extra_forbidden":
        return _unknown(str(detail["loc"][-1]), _names_at(detail["loc"][:-1]))
    if kind == "string_pattern_mismatch":
        pattern = str(context.get("pattern"))
        return f"{IN_WORDS.get(pattern, 'must match ' + pattern)}; found {value}"
    if kind == "literal_error":
        expected = str(context.get("expected"))
        near = nearest(str(detail["input"]), re.findall("'([^']*)'", expected))
        return f"{value} is not one of {expected}{f'; did you mean {near}?' if near else ''}"
    if kind == "missing":
        return _KINDS[kind]
    if kind in _KINDS:
        return f"{_KINDS[kind]}; found {value}"
    message = detail["msg"].replace("Tuple should", "the list should").replace("Dictionary should", "the object should")
    message = (
        message.replace(" after validation", "")
        .replace("Input should be", "must be")
        .replace("String should", "the text should")
    )
    return f"{message}; found {value}"


def _unknown(name: str, names: Collection[str]) -> str:
    if name in _ON and "by" in names:
        return "is called by: kubectl reads YAML 1.1, where an unquoted on is true, and can't change such a field"
    return f"there is no field {_line(name)} here{did_you_mean(name, names)}"


def _names_at(path: FieldPath) -> list[str]:
    """The fields of the model at this path."""
    model: type[BaseModel] | None = StreamApp
    for part in path:
        if isinstance(part, int) or model is None:
            continue
        field = next((f for n, f in model.model_fields.items() if part == name_in_files(n, f)), None)
        model = (object_of(field) or items_of_list(field) or value_of(field)) if field else None
    return [name_in_files(attribute, field) for attribute, field in model.model_fields.items()] if model else []


def _rule_errors(spec: object) -> Iterator[FieldError]:
    for rule in RULES:
        for path, tree in _trees(spec, rule.at):
            for below, message in rule.broken(tree):
                full_path = ("spec", *path, *below)
                yield FieldError(path=full_path, value=_value_at(tree, below), message=_line(message, _MAX_MESSAGE))


def _trees(tree: object, pattern: FieldPath) -> Iterator[tuple[FieldPath, object]]:
    if not pattern:
        if isinstance(tree, dict):
            yield (), tree
        return
    children: list[tuple[str | int, object]] = []
    if pattern[0] == "*" and isinstance(tree, list):
        children = list(enumerate(tree))
    elif isinstance(tree, dict) and pattern[0] in tree:
        children = [(pattern[0], tree[pattern[0]])]
    for part, child in children:
        for path, descendant in _trees(child, pattern[1:]):
            yield (part, *path), descendant


def _value_at(tree: object, path: FieldPath) -> object:
    for part in path:
        tree = tree[part]  # type: ignore[index]  # the rule has just walked this path
    return tree


def _without_repeats(errors: Iterator[FieldError]) -> Iterator[FieldError]:
    reported_errors: set[tuple[FieldPath, str]] = set()
    for error in errors:
        if (error.path, error.message) not in reported_errors:
            reported_errors.add((error.path, error.message))
            yield error


MOST_VALUES = 100_000
"""Objects, lists and what is in them; a thousand steps of ninety expressions each."""
MOST_LEVELS = 64
"""Of objects and lists inside each other; a pod template has a dozen."""


def too_large(tree: object) -> tuple[FieldPath, str] | None:
    """Where a tree is larger than anybody means, and what to do; None where it is not."""
    todo: list[tuple[object, FieldPath]] = [(tree, ())]
    values = 1
    while todo:
        subtree, path = todo.pop()
        if isinstance(subtree, dict):
            children = list(subtree.items())
        elif isinstance(subtree, list | tuple):
            children = list(enumerate(subtree))
        else:
            continue
        if len(path) >= MOST_LEVELS:
            return path[:3], f"is nested in more than {MOST_LEVELS} levels; make it flatter"
        values += len(children)
        if values > MOST_VALUES:
            return path[:3], (
                f"with what is in it the app has more than {MOST_VALUES} values (this one alone has {len(children)}); "
                "make it smaller, or several apps of it"
            )
        todo += [(child, (*path, part)) for part, child in children if isinstance(child, dict | list | tuple)]
    return None
