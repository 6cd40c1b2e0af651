"""Which schemas records have: of each that is read, and of those that are written.

Formats say what a schema is. Must not ask a registry itself: `WriterSchemas` does.
"""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

_Schema = TypeVar("_Schema")
_Schema_co = TypeVar("_Schema_co", covariant=True)


class WriterSchemas(Protocol[_Schema_co]):
    """Where the schemas of records come from."""

    @property
    def framed(self) -> bool:
        """Whether each record says which schema it has."""

    def schema(self, number: int, /) -> _Schema_co | str:
        """Return the schema of this id, 0 if records say none; or why there is none, as a sentence."""


class OneSchema(Generic[_Schema]):
    """The schema of all records of a stream, which say none."""

    framed = False

    def __init__(self, schema: _Schema) -> None:
        self._schema = schema

    def schema(self, number: int, /) -> _Schema:  # noqa: ARG002 - there is one
        """Return it."""
        return self._schema


@dataclass(frozen=True, slots=True)
class WrittenSchema(Generic[_Schema]):
    """How records are written: by this schema, behind this frame."""

    schema: _Schema
    frame: bytes = b""
