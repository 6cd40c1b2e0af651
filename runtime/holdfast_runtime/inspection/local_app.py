"""An app with its plan and the place of its runs: a data directory of this host, or what a driver's pod reaches.

Must not load what is not part of every installation: `holdfast plan` works without the extra `runtime`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import UserActionError
from holdfast.planning.plan import Plan, PlannedStream, typed_streams
from holdfast.spec.app import StreamApp
from holdfast.spec.streams import Stream, System
from holdfast.suggest import did_you_mean

if TYPE_CHECKING:
    from holdfast_runtime.state.durable.storage import Storage


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """The run of an app on a cluster, as the driver's pod reaches it."""

    namespace: str
    runs: "Storage"
    """All runs of the app, with their changelog: in each its offsets and its durable copies."""
    shared: "Storage"
    """What this run keeps beside that, such as a pending jump."""
    query: Path | None
    """Spark's checkpoint, if that is in a directory which all pods share; None: a copy of it is among `runs`."""


@dataclass(frozen=True, slots=True)
class LocalApp:
    """An app, its plan and its data directory."""

    app: StreamApp
    plan: Plan
    data: Path
    folder: Path | None = None
    """The directory of the app's file; None: it is from no file."""
    cluster: ClusterRun | None = None
    """Where its run is, in the driver's pod, whose mounted directory is then `data`; None: in the data directory."""

    @property
    def directory(self) -> Path:
        """Return the directory of its streams."""
        return self.data / "log"

    def stream(self, name: str) -> PlannedStream:
        """Return this stream; raise `UsageError` unless its system keeps records: the embedded log and Kafka do."""
        names = [stream.name for stream in self.plan.streams]
        if name not in names:
            message = f"{self.app.name} has no stream {name}{did_you_mean(name, names)}"
            raise UserActionError(message, code="UsageError")
        if (kind := self.kind(name)) == "generator":
            message = f"stream {name} is in a {kind} system; only streams of a log or a Kafka can be fed and tailed"
            raise UserActionError(message, code="UsageError")
        return self.plan.stream(name)

    def declared(self, name: str) -> Stream | None:
        """Return the stream as declared in the spec; None for one that a step makes."""
        return next((stream for stream in self.app.spec.streams if stream.name == name), None)

    def fed(self, name: str) -> Stream:
        """Return this stream as declared; raise `UsageError` if the app itself writes it."""
        declared, role = self.declared(name), self.stream(name).role
        outputs = {step.to for step in self.app.spec.steps} | self.app.spec.dead_letters
        if declared is None or role == "intermediate" or name in outputs:
            message = f"stream {name} is written by the app itself; feed one of its inputs"
            raise UserActionError(message, code="UsageError")
        return declared

    def system(self, name: str) -> System | None:
        """Return the stream's system; None: the embedded log, which holds the own streams of an app without Kafka."""
        systems, declared = self.app.spec.systems, self.declared(name)
        if declared is not None:
            return next(system for system in systems if system.name == declared.system)
        used = {stream.system for stream in self.app.spec.streams}
        return next((system for system in systems if system.kafka is not None and system.name in used), None)

    def kind(self, name: str) -> str:
        """Return the kind of the stream's system."""
        system = self.system(name)
        return "log" if system is None else system.kind

    def has_type_bytes(self, name: str) -> bool:
        """Return whether the stream carries control messages, so that each value starts with a type byte."""
        return name in typed_streams(self.app.spec, self.plan)
