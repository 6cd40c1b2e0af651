"""The one closed list of reasons Holdfast gives, each with a sentence that says what it means.

Problems of a plan, warnings, conditions and events take their reason from here and from nowhere else, so that a
reason seen anywhere can be looked up. Must not hold messages about a particular app: those belong to who finds them.
"""

from enum import StrEnum


class Reason(StrEnum):
    """What can be said about an app, in one word. `Reason.X.sentence` explains it."""

    sentence: str

    def __new__(cls, value: str, sentence: str) -> "Reason":
        """Make a member that is its own name and carries its sentence."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        return member

    # The spec itself
    INVALID_SPEC = "InvalidSpec", "A field of the StreamApp is missing, unknown, of the wrong type or out of range."
    TOO_LARGE = (
        "TooLarge",
        "The app is larger than what is planned: more SQL, columns or partitions than anybody writes.",
    )
    STEP_CYCLE = "StepCycle", "Steps read each other in a circle, so no row could ever leave it."

    # Partition counts
    PARTITION_COUNT_MISMATCH = (
        "PartitionCountMismatch",
        "Streams that meet in one step have different partition counts, so equal keys would sit in different tasks.",
    )
    PARTITION_COUNT_UNKNOWN = (
        "PartitionCountUnknown",
        "Nothing says how many partitions an input has: neither its topic, nor the spec, nor the command line.",
    )
    TOPIC_MISSING = "TopicMissing", "An input topic does not exist on its broker."
    PARTITION_COUNT_DIFFERS = (
        "PartitionCountDiffers",
        "The spec gives a stream another partition count than its topic has; the topic's count is used.",
    )
    COUNT_CAPPED = (
        "CountCapped",
        "An inferred partition count was cut to planning.maxIntermediatePartitions.",
    )

    # Keys and partitioners
    KEY_MISMATCH = "KeyMismatch", "A step needs equal keys in one task, but its rows are partitioned by other columns."
    KEY_TYPE_MISMATCH = "KeyTypeMismatch", "Columns that are compared have different types on the two sides."
    PARTITIONER_MISMATCH = (
        "PartitionerMismatch",
        "Streams that meet in one step were partitioned by different functions, so equal keys differ in partition.",
    )
    KEY_UNDECLARED = (
        "KeyUndeclared",
        "A step needs equal keys in one task, but no partition key is declared for its rows.",
    )
    PARTITIONER_UNKNOWN = (
        "PartitionerUnknown",
        "A stream is partitioned by a function Holdfast does not know, so where its keys are can't be proven.",
    )
    LOOKUP_KEY_MISMATCH = "LookupKeyMismatch", "A lookup must name exactly the key columns of its table."

    # Rows and expressions
    SCHEMA_MISSING = "SchemaMissing", "The columns of a stream or table that is read are not declared."
    SCHEMA_INVALID = "SchemaInvalid", "A schema is not valid Spark DDL, or names a column twice."
    SCHEMA_MISMATCH = (
        "SchemaMismatch",
        "Rows that should have the same columns differ, or rows do not fit where they go.",
    )
    UNKNOWN_COLUMN = "UnknownColumn", "An expression or a list of columns names a column the rows do not have."
    AMBIGUOUS_COLUMN = "AmbiguousColumn", "A name stands on both sides of a join and nothing says which is meant."
    DUPLICATE_COLUMN = "DuplicateColumn", "A step would give two columns the same name."
    UNNAMED_COLUMN = "UnnamedColumn", "A computed column has no name; give it one with AS."
    INVALID_EXPRESSION = "InvalidExpression", "A text is not a valid Spark SQL expression."
    AGGREGATE_NOT_ALLOWED = (
        "AggregateNotAllowed",
        "An aggregate or window function stands where each row is judged alone.",
    )
    AGGREGATE_NOT_MERGEABLE = (
        "AggregateNotMergeable",
        "An aggregate is none of those that a step can merge from partial results.",
    )
    AGGREGATE_MISSING = "AggregateMissing", "A column of an aggregate is neither grouped by nor aggregated."
    FILTER_NOT_BOOLEAN = "FilterNotBoolean", "A filter does not give true or false."
    NOT_DETERMINISTIC = (
        "NotDeterministic",
        "An expression would give another result when a batch is replayed, so exactly-once could not hold.",
    )
    SUBQUERY_NOT_ALLOWED = (
        "SubqueryNotAllowed",
        "An expression reads from a query of its own; only the row at hand is there.",
    )
    TYPE_UNKNOWN = "TypeUnknown", "The type of a column can't be told before it runs; it is planned as unknown."
    EVENT_TIME_MISSING = "EventTimeMissing", "A step works in event time, but a stream that reaches it declares none."
    EVENT_TIME_INVALID = "EventTimeInvalid", "The event time column is missing from the schema or is no timestamp."

    NEVER_FINAL = "NeverFinal", "An aggregate would put out its results when its inputs end, and they have no end."
    UPDATE_ROWS_NOT_ALLOWED = (
        "UpdateRowsNotAllowed",
        "A step that counts or matches rows reads updates, of which each would be one more row.",
    )
    MANY_PANES = "ManyPanes", "A window is cut into so many parts that each of its ends takes long."

    # Rows that go nowhere, or go twice
    ROWS_UNUSED = "RowsUnused", "Nobody reads the rows of a step, stream or table."
    BROADCAST_REPEATED = (
        "BroadcastRepeated",
        "Rows that every task sees are written by every task, so they come out once per task.",
    )

    DEAD_LETTERS_REPEATED = (
        "DeadLettersRepeated",
        "A side input that every location reads would write its dead letters once per location.",
    )
    TABLE_KEY_COMPUTED = (
        "TableKeyComputed",
        "The key of a table that each host fills is an expression that only Spark SQL computes.",
    )
    TABLE_EMPTY = "TableEmpty", "Nothing feeds a table: it has neither sources nor toTable steps."
    TOPIC_SHARED = "TopicShared", "Two streams of one system mean the same topic in ways that contradict or feed back."
    STREAM_CIRCLE = "StreamCircle", "Rows written to a stream come back to the steps that wrote them."
    LOCATION_SPLIT = (
        "LocationSplit",
        "One location names several disks, so tasks would be sent back to disks that lack their state.",
    )
    CODE_INVALID = "CodeInvalid", "A module of runtime.code is not valid Python, or lacks a function a step names."

    # Growth of inputs (record of the last run)
    NOT_A_MULTIPLE = "NotAMultiple", "A stream grew to a count that is not a multiple of what its tasks were built for."
    PARTITIONS_SHRANK = "PartitionsShrank", "A stream has fewer partitions than the last run recorded."
    TASK_VANISHED = "TaskVanished", "A task of the record does not exist in the grouping any more."
    EXPANSION_OFF = (
        "ExpansionOff",
        "Partitions changed while expansion is off, so keys leave the tasks that hold their state.",
    )
    STEP_RENAMED = (
        "StepRenamed",
        "A step whose state the run keeps is gone, and a new one keeps the same: a rename, or the state is given up?",
    )
    STREAM_RENAMED = (
        "StreamRenamed",
        "A stream that the run has read is gone, and a new one means the same topic: all of it would be read again.",
    )
    STATE_MISFIT = (
        "StateMisfit",
        "The state of the run was made by other fields than the app has now, so it can't go on with it.",
    )
    STATE_TAKEN_UP = (
        "StateTakenUp",
        "A step is back whose state was given up in this run; what is left of it is as it was then.",
    )
    KEPT_FOR_EVER = "KeptForEver", "A step remembers each key for ever, so its state only grows."
    TABLE_KEY_DIFFERS = (
        "TableKeyDiffers",
        "A table has another key than its side input, so that deleted and changed records leave rows behind.",
    )
    STATE_GIVEN_UP = "StateGivenUp", "A step whose state the run keeps is gone, so its state is given up."
    RECORD_IGNORED = "RecordIgnored", "The placement record belongs to another run, so it was not used."

    # An app on a cluster: how it goes
    RUNNING = "Running", "The driver runs and commits batches."
    STARTING = "Starting", "An attempt is starting."
    PLAN_ACCEPTED = "PlanAccepted", "The plan has no problem."
    STATE_FITS = "StateFits", "What the app is now can go on with the state of its run."
    ASSIGNED = "Assigned", "Every task has a processor."
    ALL_PLACED = "AllPlaced", "Every task runs where its state is."
    NOT_YET_KNOWN = "NotYetKnown", "Nothing has been seen that could be judged."
    TABLES_LOADED = "TablesLoaded", "Every table that the app's inputs wait for is loaded."
    TABLES_LOADING = "TablesLoading", "The app's inputs wait until its tables are loaded from their side inputs."
    TABLE_INCOMPLETE = (
        "TableIncomplete",
        "A table lacks rows: they were read and are lost, or were gone from its side input before they were read.",
    )
    SETTLED = "Settled", "Nothing is being changed."
    NOT_STALLED = "NotStalled", "Nothing waits for somebody to act."
    DRAINING = "Draining", "The attempt finishes its batch, commits it and ends."
    SUSPENDED = "Suspended", "The app is stopped because spec.suspend is true; its state is kept."
    COMPLETED = "Completed", "All inputs have ended and everything is written."
    DELETING = "Deleting", "The app is being deleted: its attempt is drained, then what it had is released."
    SPEC_CHANGED = "SpecChanged", "The spec differs from what the attempt runs; the next attempt takes it up."
    TRYING = "Trying", "A pod like those of the next attempt is tried before the running attempt is drained for it."
    PARTITIONS_GREW = "PartitionsGrew", "An input has more partitions; the next attempt reads them."
    GROWTH_HALTED = "GrowthHalted", "An input has grown, and spec.onPartitionGrowth says to stop then."

    # An app on a cluster: what keeps it from starting
    CHECKPOINT_MISSING = "CheckpointMissing", "On a cluster, spec.runtime.checkpoint.location is needed."
    SYSTEM_NOT_REACHABLE = "SystemNotReachable", "The embedded log is on one host; pods of a cluster can't share it."
    OBJECT_MISSING = "ObjectMissing", "A Secret, ConfigMap or claim that the pods need does not exist."
    STORAGE_CLASS_MISSING = (
        "StorageClassMissing",
        "The cluster has no storage class of the name that the app's volume claims need, or no default.",
    )
    ASKING_BROKERS = "AskingBrokers", "The brokers are being asked how many partitions the topics have."
    BROKER_UNREACHABLE = "BrokerUnreachable", "No broker of a system says how many partitions its topics have."
    RECORD_UNREADABLE = "RecordUnreadable", "The placement record of the run can't be read as what it should be."
    POD_TEMPLATE_REFUSED = "PodTemplateRefused", "A pod template sets what is not its own to set."
    PODS_NOT_ALLOWED = "PodsNotAllowed", "The app asks for pods that this release of the operator does not allow."
    CLUSTER_UNREADABLE = "ClusterUnreadable", "The API server did not answer what a decision needs."
    PREVIOUS_ATTEMPT_ALIVE = "PreviousAttemptAlive", "Pods of an earlier attempt are not proven to be gone."
    CREATE_REFUSED = "CreateRefused", "The API server refused to create what the attempt needs."

    # An app on a cluster: what is wrong with its driver
    IMAGE_UNAVAILABLE = "ImageUnavailable", "The image of the driver can't be pulled."
    CONTAINER_REFUSED = "ContainerRefused", "The kubelet can't make the driver's container."
    UNSCHEDULABLE = "Unschedulable", "The scheduler finds no node for the driver."
    START_TIMEOUT = "StartTimeout", "The driver has not started for longer than it may take."
    ATTEMPTS_USED_UP = "AttemptsUsedUp", "The run has used the largest number that an attempt can have."
    NO_REPORT = "NoReport", "The driver runs but does not report."
    NO_PROGRESS = "NoProgress", "The driver runs and records wait, but no batch is committed."
    OUT_OF_MEMORY = "OutOfMemory", "The driver was killed because it used more memory than it may."
    EVICTED = "Evicted", "The node took the driver's place for something else."
    NODE_LOST = "NodeLost", "The node of a pod does not answer any more."
    DRIVER_DELETED = "DriverDeleted", "Somebody else deleted the driver's pod."
    DRIVER_FAILED = "DriverFailed", "The driver ended with an error."
    DRIVER_REFUSED = (
        "DriverRefused",
        "The driver ended because something has to be changed first; its message says what.",
    )
    ENDED_BY_ITSELF = "EndedByItself", "The driver of an app without end ended without an error."
    WAITING_TO_RESTART = "WaitingToRestart", "The last attempt failed; the next one starts after a wait."
    TRIAL_FAILED = "TrialFailed", "A pod like those of the next attempt could not run, so the attempt was not drained."
    ROLLED_BACK = "RolledBack", "An attempt of the newest spec never came up, so the app runs the spec that ran before."
    RESTART_NEVER = "RestartNever", "The last attempt failed, and spec.restart.policy allows no other."
    EXECUTORS_MISSING = "ExecutorsMissing", "Fewer executors run than the app asks for; the others wait for something."
    EXECUTOR_LOST = "ExecutorLost", "An executor ended though its attempt goes on; the message says how."
    LOCATION_MISSING = "LocationMissing", "An executor has no location, so it can't be given tasks."
    CLAIM_GIVEN_UP = (
        "ClaimGivenUp",
        "The node of a volume is lost, so its claim was given up; its tasks restore from their durable copies.",
    )
    TASKS_AWAY = "TasksAway", "Some tasks run away from the place of their state, and restore it there."
