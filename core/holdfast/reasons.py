"""The one closed list of reasons Holdfast gives, explained in `reasons.md`: meaning, how to see it, cure.

Problems of a plan, warnings, conditions and events take their reason from here and from nowhere else, so that a
reason seen anywhere can be looked up. `holdfast explain` and the page about troubleshooting are made from the same
text. Must not hold messages about a particular app: those belong to who finds them.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Explanation:
    """The text about a reason, each part on one line of Markdown."""

    meaning: str
    where: str
    """Conditions, events and lines that show it; empty for what a plan finds."""
    look: str
    """How to see what is behind it."""
    do: str
    """The cure."""


class Reason(StrEnum):
    """What can be said about an app, in one word. `Reason.X.sentence` says what it means."""

    # The spec itself
    INVALID_SPEC = "InvalidSpec"
    TOO_LARGE = "TooLarge"
    STEP_CYCLE = "StepCycle"

    # Partition counts
    PARTITION_COUNT_MISMATCH = "PartitionCountMismatch"
    PARTITION_COUNT_UNKNOWN = "PartitionCountUnknown"
    TOPIC_MISSING = "TopicMissing"
    PARTITION_COUNT_DIFFERS = "PartitionCountDiffers"
    COUNT_CAPPED = "CountCapped"

    # Keys and partitioners
    KEY_MISMATCH = "KeyMismatch"
    KEY_TYPE_MISMATCH = "KeyTypeMismatch"
    PARTITIONER_MISMATCH = "PartitionerMismatch"
    KEY_UNDECLARED = "KeyUndeclared"
    PARTITIONER_UNKNOWN = "PartitionerUnknown"
    LOOKUP_KEY_MISMATCH = "LookupKeyMismatch"

    # Rows and expressions
    SCHEMA_MISSING = "SchemaMissing"
    SCHEMA_INVALID = "SchemaInvalid"
    SCHEMA_MISMATCH = "SchemaMismatch"
    UNKNOWN_COLUMN = "UnknownColumn"
    AMBIGUOUS_COLUMN = "AmbiguousColumn"
    DUPLICATE_COLUMN = "DuplicateColumn"
    UNNAMED_COLUMN = "UnnamedColumn"
    INVALID_EXPRESSION = "InvalidExpression"
    AGGREGATE_NOT_ALLOWED = "AggregateNotAllowed"
    AGGREGATE_NOT_MERGEABLE = "AggregateNotMergeable"
    AGGREGATE_MISSING = "AggregateMissing"
    FILTER_NOT_BOOLEAN = "FilterNotBoolean"
    NOT_DETERMINISTIC = "NotDeterministic"
    SUBQUERY_NOT_ALLOWED = "SubqueryNotAllowed"
    TYPE_UNKNOWN = "TypeUnknown"
    EVENT_TIME_MISSING = "EventTimeMissing"
    EVENT_TIME_INVALID = "EventTimeInvalid"
    EVENT_TIME_MERGED = "EventTimeMerged"
    METADATA_INVALID = "MetadataInvalid"
    START_INVALID = "StartInvalid"
    CHANGES_INVALID = "ChangesInvalid"
    NEVER_FINAL = "NeverFinal"
    UPDATE_ROWS_NOT_ALLOWED = "UpdateRowsNotAllowed"
    MANY_PANES = "ManyPanes"

    # Rows that go nowhere, or go twice
    ROWS_UNUSED = "RowsUnused"
    BROADCAST_REPEATED = "BroadcastRepeated"
    DEAD_LETTERS_REPEATED = "DeadLettersRepeated"
    TABLE_KEY_COMPUTED = "TableKeyComputed"
    TABLE_OUT_OF_REACH = "TableOutOfReach"
    TABLE_EMPTY = "TableEmpty"
    TOPIC_SHARED = "TopicShared"
    STREAM_CIRCLE = "StreamCircle"
    LOCATION_SPLIT = "LocationSplit"
    CODE_INVALID = "CodeInvalid"

    # Growth of inputs
    NOT_A_MULTIPLE = "NotAMultiple"
    PARTITIONS_SHRANK = "PartitionsShrank"
    TASK_VANISHED = "TaskVanished"
    EXPANSION_OFF = "ExpansionOff"
    STEP_RENAMED = "StepRenamed"
    STREAM_RENAMED = "StreamRenamed"
    STATE_MISFIT = "StateMisfit"
    STATE_TAKEN_UP = "StateTakenUp"
    KEPT_FOR_EVER = "KeptForEver"
    TABLE_KEY_DIFFERS = "TableKeyDiffers"
    STATE_GIVEN_UP = "StateGivenUp"
    RECORD_IGNORED = "RecordIgnored"

    # An app on a cluster: how it goes
    RUNNING = "Running"
    STARTING = "Starting"
    PLAN_ACCEPTED = "PlanAccepted"
    STATE_FITS = "StateFits"
    ASSIGNED = "Assigned"
    ALL_PLACED = "AllPlaced"
    NOT_YET_KNOWN = "NotYetKnown"
    TABLES_LOADED = "TablesLoaded"
    TABLES_LOADING = "TablesLoading"
    TABLE_INCOMPLETE = "TableIncomplete"
    SETTLED = "Settled"
    NOT_STALLED = "NotStalled"
    DRAINING = "Draining"
    SUSPENDED = "Suspended"
    COMPLETED = "Completed"
    DELETING = "Deleting"
    SPEC_CHANGED = "SpecChanged"
    TRYING = "Trying"
    PARTITIONS_GREW = "PartitionsGrew"
    GROWTH_HALTED = "GrowthHalted"

    # An app on a cluster: what keeps it from starting
    CHECKPOINT_MISSING = "CheckpointMissing"
    SYSTEM_NOT_REACHABLE = "SystemNotReachable"
    OBJECT_MISSING = "ObjectMissing"
    STORAGE_CLASS_MISSING = "StorageClassMissing"
    ASKING_BROKERS = "AskingBrokers"
    BROKER_UNREACHABLE = "BrokerUnreachable"
    RECORD_UNREADABLE = "RecordUnreadable"
    POD_TEMPLATE_REFUSED = "PodTemplateRefused"
    PODS_NOT_ALLOWED = "PodsNotAllowed"
    CLUSTER_UNREADABLE = "ClusterUnreadable"
    PREVIOUS_ATTEMPT_ALIVE = "PreviousAttemptAlive"
    CREATE_REFUSED = "CreateRefused"

    # An app on a cluster: what is wrong with its driver
    IMAGE_UNAVAILABLE = "ImageUnavailable"
    CONTAINER_REFUSED = "ContainerRefused"
    UNSCHEDULABLE = "Unschedulable"
    START_TIMEOUT = "StartTimeout"
    ATTEMPTS_USED_UP = "AttemptsUsedUp"
    NO_REPORT = "NoReport"
    NO_PROGRESS = "NoProgress"
    OUT_OF_MEMORY = "OutOfMemory"
    EVICTED = "Evicted"
    NODE_LOST = "NodeLost"
    DRIVER_DELETED = "DriverDeleted"
    DRIVER_FAILED = "DriverFailed"
    DRIVER_REFUSED = "DriverRefused"
    ENDED_BY_ITSELF = "EndedByItself"
    WAITING_TO_RESTART = "WaitingToRestart"
    TRIAL_FAILED = "TrialFailed"
    ROLLED_BACK = "RolledBack"
    RESTART_NEVER = "RestartNever"
    EXECUTORS_MISSING = "ExecutorsMissing"
    EXECUTOR_LOST = "ExecutorLost"
    LOCATION_MISSING = "LocationMissing"
    CLAIM_GIVEN_UP = "ClaimGivenUp"
    TASKS_AWAY = "TasksAway"

    @property
    def explanation(self) -> Explanation:
        """What it means, how to see it and what to do."""
        return _explanations()[self.value]

    @property
    def sentence(self) -> str:
        """What it means."""
        return self.explanation.meaning


def reasons_text() -> str:
    """All explanations as one page of Markdown; its links start from the folder `docs`."""
    return (files("holdfast") / "reasons.md").read_text(encoding="utf-8")


_ENTRY = re.compile(r"^### (?P<name>\w+)\n(?P<text>.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_PART = re.compile(r"^- \*\*(Where|Look|Do):\*\* ", re.MULTILINE)


@cache
def _explanations() -> dict[str, Explanation]:
    return {entry["name"]: _explanation(entry["text"]) for entry in _ENTRY.finditer(reasons_text())}


def _explanation(text: str) -> Explanation:
    meaning, *parts = (" ".join(part.split()) for part in _PART.split(text))
    texts = dict(zip(parts[::2], parts[1::2], strict=True))
    return Explanation(meaning, texts.get("Where", ""), texts["Look"], texts["Do"])
