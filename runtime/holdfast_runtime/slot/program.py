"""The program of an app: what every slot has to know, made once by the driver and sent with the job.

Plain values, picklable, the same for all batches of an attempt, wherever its tasks run. Must not hold anything open.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.planning.plan import Plan
from holdfast.spec.app import AppSpec
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.places import folder_name
from holdfast_runtime.segments.graph import CompiledGraph
from holdfast_runtime.state.durable import CrashHook, DurableCopy, SnapshotPolicy
from holdfast_runtime.state.place import DEFAULT_QUOTA, StorePlace, TaskIdentity
from holdfast_runtime.state.storage import Storage
from holdfast_runtime.streams.app_streams import StreamsEnvironment
from holdfast_runtime.streams.markers import AttemptId, PlacedMarker


@dataclass(frozen=True, slots=True)
class StatePlaces:
    """Where state is kept: in local stores, and in the durable copy."""

    local: Path
    durable: Storage
    quota: int = DEFAULT_QUOTA
    snapshots: SnapshotPolicy = field(default_factory=SnapshotPolicy)

    def place(self, identity: TaskIdentity) -> StorePlace:
        """Return the place of a task's local store."""
        return StorePlace(self.local / folder_name(identity.task), identity, self.quota)

    def copy(self, identity: TaskIdentity, at: CrashHook) -> DurableCopy:
        """Return the durable copy of a task's state."""
        return DurableCopy(self.durable, identity, at=at)


@dataclass(frozen=True, slots=True)
class Program:
    """An app, ready to run."""

    app: str
    spec: AppSpec
    plan: Plan
    compiled: CompiledGraph
    tasks: Mapping[str, tuple[StreamPartition, ...]]
    where: StreamsEnvironment
    state: StatePlaces
    owner: str
    """The owner in output markers: app and run."""
    life: str
    """The id of the checkpoint (`checkpoint.life`)."""
    sent: Mapping[str, PlacedMarker]
    """Task -> the marker of its last batch whose outputs existed when the attempt began."""

    @property
    def names(self) -> tuple[str, ...]:
        """Tasks in a fixed order: between segments a task is known by its number in it."""
        return tuple(self.tasks)

    def who(self, attempt: int) -> AttemptId:
        """Return the identity under which an attempt writes."""
        return AttemptId(self.app, self.spec.run_id, attempt)

    def identity(self, task: str) -> TaskIdentity:
        """Return the identity of a task's state."""
        return TaskIdentity(self.app, self.spec.run_id, task)


def typed_streams(spec: AppSpec, plan: Plan) -> frozenset[str]:
    """Return the streams whose records start with a type byte, because they may carry control messages."""
    control = {stream.name for stream in spec.streams if stream.control}
    return frozenset(stream.name for stream in plan.streams if stream.role == "intermediate" or stream.name in control)


def written_streams(spec: AppSpec, plan: Plan) -> tuple[str, ...]:
    """Return the streams that the app writes, by its steps or as dead letters."""
    return tuple(sorted({*plan.producers, *spec.dead_letters}))


def count_of(plan: Plan, stream: str) -> int:
    """Return how many partitions a stream has."""
    count = plan.stream(stream).count
    return 1 if count is None else count.actual
