"""The names by which a run knows streams: all that is durable of it belongs to them, whatever streams are called now.

A stream that says `was` has another name than its run gave it. The runtime is given the app with the names of the run
(`kept_app`), so that nothing that is stored, ordered or replayed depends on a rename; what people see has the names of
now (`StreamNames`). Pure; must not know what is stored.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.spec.app import AppSpec, StreamApp

V = TypeVar("V")


@dataclass(frozen=True)
class StreamNames:
    """The streams that the run knows by another name."""

    kept: Mapping[str, str]
    """Name -> the name of the run."""

    @classmethod
    def of(cls, spec: "AppSpec") -> "StreamNames":
        """Return those of an app."""
        return cls({one.name: one.was for one in spec.streams if one.was not in (None, one.name)})

    @cached_property
    def called(self) -> Mapping[str, str]:
        """Name of the run -> name."""
        return {run_name: name for name, run_name in self.kept.items()}

    def shown(self, by_stream: Mapping[str, V]) -> dict[str, V]:
        """Return the same by the names that people know."""
        return {self.called.get(name, name): value for name, value in by_stream.items()}

    def explained(self, text: str) -> str:
        """Return a sentence of the runtime, followed by what the streams in it are called now.

        Names in it are left alone: they may be those of topics, tables and columns too.
        """
        words = set(re.findall(r"[\w.-]*\w", text))
        renamed = [f"{name} (was: {run_name})" for name, run_name in sorted(self.kept.items()) if run_name in words]
        return f"{text} [stream {', '.join(renamed)}]" if renamed else text

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Explain errors of the runtime."""
        try:
            yield
        except HoldfastError as error:
            error.args = (self.explained(str(error)), *error.args[1:])
            raise


def kept_app(app: "StreamApp") -> "StreamApp":
    """Return the app with the names of its run."""
    return app.model_copy(update={"spec": kept_spec(app.spec)})


def kept_spec(spec: "AppSpec") -> "AppSpec":
    """Return the spec with the names of its run; topics stay what they are."""
    run_names = StreamNames.of(spec).kept
    if not run_names:
        return spec

    def name(stream: str | None) -> str | None:
        return None if stream is None else run_names.get(stream, stream)

    def names(streams: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(run_names.get(stream, stream) for stream in streams)

    streams = tuple(
        stream.model_copy(
            update={
                "name": name(stream.name),
                "was": None,
                "topic": stream.topic or (stream.name if stream.name in run_names else None),
                "dead_letter": name(stream.dead_letter),
            }
        )
        for stream in spec.streams
    )
    tables = tuple(
        table if table.sources is None else table.model_copy(update={"sources": names(table.sources)})
        for table in spec.tables
    )
    steps = tuple(
        step.model_copy(
            update={"inputs": names(step.inputs), "to": name(step.to), "dead_letter": name(step.dead_letter)}
        )
        for step in spec.steps
    )
    return spec.model_copy(update={"streams": streams, "tables": tables, "steps": steps})
