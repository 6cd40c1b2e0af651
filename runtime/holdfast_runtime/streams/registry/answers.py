"""What a schema registry answers, read without trust: schemas, ids, subjects, and why it refuses.

Answers come from the network, so sizes are bounded and types are checked. Must not call anybody.
"""

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from holdfast import bounded_json

MOST_BYTES = 16 << 20
"""Of one answer. A schema may have a megabyte or so; the names of ten thousand subjects have as much."""
_MOST_VALUES = 1 << 18
_DEFAULT_KIND = "AVRO"
"""Left out in answers and requests, since at first there was no other."""
_NOT_FOUND = range(40400, 40500)
_VALUE = TypeVar("_VALUE")


class UnexpectedAnswerError(ValueError):
    """No answer of a schema registry; the message says what it lacks and quotes nothing."""


class SchemaReference(NamedTuple):
    """A schema that another refers to."""

    name: str
    """By which the other refers to it."""
    subject: str
    version: int

    def __str__(self) -> str:
        """Return what it is called in messages."""
        return f"version {self.version} of subject {self.subject}"


class SchemaAnswer(NamedTuple):
    """A schema without the texts of those it refers to."""

    kind: str
    text: str
    references: tuple[SchemaReference, ...]


class SubjectVersion(NamedTuple):
    """A schema of a subject."""

    id: int
    schema: SchemaAnswer


class Refusal(NamedTuple):
    """Why there is no answer."""

    none_such: bool
    """Whether it says of a schema or a subject that there is none. A 404 about a page comes of a wrong url."""
    reason: str
    """In the words of the registry; may be empty."""


Reader = Callable[[object], _VALUE]
"""Reads one kind of answer; raises `UnexpectedAnswerError`."""


def parsed(text: bytes) -> object:
    """Return the JSON of an answer."""
    try:
        bounded_json.check(text, most_bytes=MOST_BYTES, most_levels=bounded_json.MOST_LEVELS, most_values=_MOST_VALUES)
        return json.loads(text)
    except bounded_json.JsonTooBigError as error:
        raise UnexpectedAnswerError(str(error)) from None
    except ValueError:
        message = "it is not JSON"
        raise UnexpectedAnswerError(message) from None


def request_of(kind: str, text: str) -> dict[str, str]:
    """Return the request about a schema; registries of before there were kinds take one without."""
    return {"schema": text} if kind == _DEFAULT_KIND else {"schema": text, "schemaType": kind}


def id_in(answer: object) -> int:
    """Read the id of a schema."""
    return _number(answer, "id")


def schema_in(answer: object) -> SchemaAnswer:
    """Read a schema."""
    references = _member(answer, "references", list, default=[])
    return SchemaAnswer(
        _text(answer, "schemaType", default=_DEFAULT_KIND),
        _text(answer, "schema"),
        tuple(
            SchemaReference(_text(reference, "name"), _text(reference, "subject"), _number(reference, "version"))
            for reference in references
        ),
    )


def version_in(answer: object) -> SubjectVersion:
    """Read a schema of a subject."""
    return SubjectVersion(id_in(answer), schema_in(answer))


def subjects_in(answer: object) -> list[str]:
    """Read the names of subjects."""
    if not isinstance(answer, list) or not all(isinstance(name, str) for name in answer):
        message = "it is not a list of names"
        raise UnexpectedAnswerError(message)
    return answer


def refusal_in(text: bytes) -> Refusal:
    """Read why there is no answer; whatever the text is, as a proxy may have written it."""
    try:
        answer = parsed(text)
    except UnexpectedAnswerError:
        answer = None
    members = answer if isinstance(answer, Mapping) else {}
    reason = members.get("message")
    return Refusal(members.get("error_code") in _NOT_FOUND, reason if isinstance(reason, str) else "")


def _text(answer: object, name: str, default: str | None = None) -> str:
    text = _member(answer, name, str, default)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # half of a letter, as JSON may have it, which could not be written anywhere
            message = f"its {name} is not Unicode"
            raise UnexpectedAnswerError(message) from None
    return text


def _number(answer: object, name: str) -> int:
    number = _member(answer, name, int)
    if isinstance(number, bool) or number < 0:
        message = f"its {name} is not a number from 0"
        raise UnexpectedAnswerError(message)
    return number


def _member(answer: object, name: str, kind: type[_VALUE], default: _VALUE | None = None) -> _VALUE:
    value = answer.get(name) if isinstance(answer, Mapping) else None
    if value is None and default is not None:
        return default
    if not isinstance(value, kind):
        message = f"its {name} is no {kind.__name__}" if value is not None else f"it has no {name}"
        raise UnexpectedAnswerError(message)
    return value
