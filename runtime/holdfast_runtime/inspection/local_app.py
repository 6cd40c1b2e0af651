"""An app with its plan and the data directory of its runs on this host.

Must not load what is not part of every installation: `holdfast plan` works without the extra `runtime`.
"""

from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import UserActionError
from holdfast.planning.plan import Plan, PlannedStream, typed_streams
from holdfast.spec.app import StreamApp
from holdfast.spec.streams import Stream
from holdfast.suggest import did_you_mean


@dataclass(frozen=True, slots=True)
class LocalApp:
    """An app, its plan and its data directory."""

    app: StreamApp
    plan: Plan
    data: Path

    @property
    def directory(self) -> Path:
        """Return the directory of its streams."""
        return self.data / "log"

    def stream(self, name: str) -> PlannedStream:
        """Return this stream; raise `UsageError` unless the embedded log holds it."""
        names = [stream.name for stream in self.plan.streams]
        if name not in names:
            message = f"{self.app.name} has no stream {name}{did_you_mean(name, names)}"
            raise UserActionError(message, code="UsageError")
        if (kind := self.kind(name)) != "log":
            message = f"stream {name} is in a {kind} system; only streams of a log system can be fed and tailed"
            raise UserActionError(message, code="UsageError")
        return self.plan.stream(name)

    def declared(self, name: str) -> Stream | None:
        """Return the stream as declared in the spec; None for one that a step makes."""
        return next((stream for stream in self.app.spec.streams if stream.name == name), None)

    def kind(self, name: str) -> str:
        """Return the kind of the stream's system. A stream made by a step is in the log if the app has one."""
        stream, systems = self.declared(name), self.app.spec.systems
        if stream is not None:
            return next((system.kind for system in systems if system.name == stream.system), "unknown")
        kinds = [system.kind for system in systems]
        return "log" if "log" in kinds else kinds[0] if kinds else "unknown"

    def has_type_bytes(self, name: str) -> bool:
        """Return whether the stream carries control messages, so that each value starts with a type byte."""
        return name in typed_streams(self.app.spec, self.plan)
