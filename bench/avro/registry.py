"""A registry with one schema, in place of a real one."""

from typing import Generic, TypeVar

_Schema = TypeVar("_Schema")


class OneRegistered(Generic[_Schema]):
    """One schema, and records that say so."""

    framed = True

    def __init__(self, schema: _Schema, id_frame: bytes) -> None:
        self._schema, self._id = schema, id_frame[-1]

    def schema(self, number: int, /) -> _Schema:
        """Return it."""
        assert number == self._id  # noqa: S101 - it wrote all records
        return self._schema
