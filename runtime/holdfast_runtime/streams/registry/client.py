"""The client of a schema registry: schemas by id and of a subject, each with all that it refers to.

An id means the same schema for ever, so each is asked for once. What does not exist is `None`, never an error; what
can't be asked is an error, never `None`. Must not know formats, nor which schema a stream uses.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

from holdfast.errors import WorldChangeError
from holdfast_runtime.streams.registry.answers import (
    SchemaAnswer,
    SchemaReference,
    id_in,
    request_of,
    schema_in,
    subjects_in,
    version_in,
)
from holdfast_runtime.streams.registry.connection import RegistryConnection, RegistryUnreachableError
from holdfast_runtime.streams.registry.patience import RegistryPatience
from holdfast_runtime.streams.registry.settings import RegistrySettings

_NOT_AGAIN = 60.0
"""Seconds."""
_MOST_REFERENCES = 256
"""Of one schema, so that answers can't keep a client busy for ever."""
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as its writer registered it."""

    id: int
    kind: str
    """AVRO, PROTOBUF, JSON, or another that the registry knows."""
    text: str
    references: tuple[tuple[str, str], ...] = ()
    """Names and texts of all schemas that it refers to, also through others; those that others need come first."""


class SchemaRegistry:
    """One schema registry."""

    def __init__(self, settings: RegistrySettings, patience: RegistryPatience | None = None) -> None:
        self._settings, self._patience = settings, patience or RegistryPatience()
        self._connection = RegistryConnection(settings, self._patience)
        self._schemas: dict[int, RegisteredSchema] = {}
        self._in_vain: float | None = None
        """When an id was last waited for that nobody knew."""

    def close(self) -> None:
        """Close the connection; a later call opens it again."""
        self._connection.close()

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """Return the schema of this id; None if the registry still does not know it after a while.

        Once that was waited for in vain, other ids are not waited for until a minute is over: a topic of damaged
        records may have as many ids as records.
        """
        if schema_id not in self._schemas:
            if (answer := self._answer(schema_id)) is None:
                return None
            self._schemas[schema_id] = self._whole(schema_id, answer)
        return self._schemas[schema_id]

    def _answer(self, schema_id: int) -> SchemaAnswer | None:
        def ask() -> SchemaAnswer | None:
            return self._connection.get(f"/schemas/ids/{schema_id}", schema_in)

        now = self._patience.clock()
        if self._in_vain is not None and now - self._in_vain < _NOT_AGAIN:
            return ask()
        answer = self._awaited(ask)
        self._in_vain = now if answer is None else self._in_vain
        return answer

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return the newest schema of a subject; None if there is none."""
        version = self._connection.get(f"{_path(subject)}/versions/latest", version_in)
        if version is None:
            return None
        if version.id not in self._schemas:
            self._schemas[version.id] = self._whole(version.id, version.schema)
        return self._schemas[version.id]

    def subjects(self) -> list[str]:
        """Return the names of all subjects that the login may see."""
        return self._connection.get("/subjects", subjects_in) or []

    def id_of(self, subject: str, kind: str, text: str) -> int | None:
        """Return the id of a schema if this subject has it; to some registries other spaces are another schema."""
        return self._connection.post(_path(subject), request_of(kind, text), id_in)

    def register(self, subject: str, kind: str, text: str) -> int:
        """Register a schema under this subject, unless it is already, and return its id."""
        path = f"{_path(subject)}/versions"
        schema_id = self._connection.post(path, request_of(kind, text), id_in)
        if schema_id is None:
            message = (
                f"{self._settings} registers nothing under subject {subject}: it says that there is no such subject"
            )
            raise RegistryUnreachableError(message)
        return schema_id

    def _whole(self, schema_id: int, answer: SchemaAnswer) -> RegisteredSchema:
        texts: dict[SchemaReference, str] = {}
        self._follow(schema_id, answer, texts, ())
        references = tuple((reference.name, text) for reference, text in texts.items())
        return RegisteredSchema(schema_id, answer.kind, answer.text, references)

    def _follow(
        self,
        schema_id: int,
        answer: SchemaAnswer,
        texts: dict[SchemaReference, str],
        way: Sequence[SchemaReference],
    ) -> None:
        """Add the texts of all that an answer refers to; `way` leads to it."""
        for reference in answer.references:
            if reference in texts:
                continue
            if reference in way:
                raise self._broken(schema_id, f"{reference} refers to itself")
            if len(texts) + len(way) >= _MOST_REFERENCES:
                raise self._broken(schema_id, f"it refers to more than {_MOST_REFERENCES} others")
            version = self._version(reference)
            if version is None:
                raise self._broken(schema_id, f"it refers to {reference}, which the registry does not have")
            self._follow(schema_id, version, texts, (*way, reference))
            texts[reference] = version.text

    def _version(self, reference: SchemaReference) -> SchemaAnswer | None:
        # Deleted ones are still there for those that refer to them.
        path = f"{_path(reference.subject)}/versions/{reference.version}?deleted=true"
        return self._awaited(lambda: self._connection.get(path, schema_in))

    def _awaited(self, ask: Callable[[], _Answer | None]) -> _Answer | None:
        """Ask again while there is none: followers of a registry learn later of what is new."""
        for _ in self._patience.attempts(self._patience.unknown):
            answer = ask()
            if answer is not None:
                return answer
        return None

    def _broken(self, schema_id: int, fault: str) -> WorldChangeError:
        message = (
            f"schema {schema_id} of {self._settings} can't be used: {self._settings.shown(fault)}. Register it anew, "
            "with references that the registry has"
        )
        return WorldChangeError(message, code="RegistryReferenceError")


def _path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"
