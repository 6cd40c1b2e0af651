"""Systems, streams and tables as a user writes them: where records come from, go to and are kept beside the tasks.

Must not know steps, nor how any system is read: rules over these are in `rules`.
"""

from typing import Annotated, Literal, cast

from pydantic import Field

from holdfast.spec.fields import ChangeCost, SpecModel
from holdfast.spec.values import (
    ColumnName,
    Ddl,
    Duration,
    Expression,
    FunctionPath,
    MetadataItem,
    Name,
    NullText,
    ObjectName,
    PartitionCount,
    PositiveDuration,
    RegistryUrl,
    ReplicaCount,
    Retention,
    SchemaText,
    Settings,
    ShortExpression,
    Start,
    Text,
    millis,
)

MAX_AHEAD = "24h"
"""How far ahead of the clock event time is believed where nobody says."""

Partitioner = Literal["murmur2", "crc32", "none"]
ValueFormat = Literal["json", "json-schema", "avro", "protobuf", "csv", "string", "binary"]
SCHEMA_FORMATS: tuple[ValueFormat, ...] = ("json-schema", "avro", "protobuf")
"""Those whose records have a schema."""
SHOWN_AS_JSON: tuple[ValueFormat, ...] = (*SCHEMA_FORMATS, "csv")
"""Those whose records people read and write as JSON objects."""
MetadataField = Literal["key", "keyBytes", "headers", "partition", "offset", "timestamp"]
TimeUnit = Literal["Seconds", "Milliseconds", "Microseconds"]


class KafkaRegistry(SpecModel):
    """A schema registry that speaks Confluent's API."""

    url: Annotated[RegistryUrl, ChangeCost.RESTART]
    """Its address, e.g. https://registry:8081."""
    secret_name: Annotated[ObjectName | None, ChangeCost.RESTART] = None
    """A Secret of the app's namespace with entries username and password, ca.crt, or tls.crt and tls.key."""


class KafkaSystem(SpecModel):
    """An Apache Kafka cluster."""

    bootstrap_servers: Annotated[Text, ChangeCost.RESTART]
    """Addresses to start from, `host:port` separated by commas."""
    config: Annotated[Settings, ChangeCost.RESTART] = Field(default_factory=dict)
    """Settings of librdkafka. Those that load a library, run a program or take a function are refused. Passwords do not
    belong here: name a Secret in `secretName`."""
    secret_name: Annotated[ObjectName | None, ChangeCost.RESTART] = None
    """A Secret of the app's namespace whose entries are settings of librdkafka too, e.g. `sasl.password`."""
    delivery: Annotated[Literal["ExactlyOnce", "AtLeastOnce"], ChangeCost.RESTART] = "ExactlyOnce"
    """AtLeastOnce writes without transactions: sooner, with less work for the brokers, and twice after a failure.
    Default: ExactlyOnce."""
    replication: Annotated[ReplicaCount | None, ChangeCost.RESTART] = None
    """How many brokers hold each record of topics that Holdfast makes, and must of those it writes that are there.
    Default: the brokers'."""
    registry: Annotated[KafkaRegistry | None, ChangeCost.RESTART] = None
    """Where schemas are: records of `avro`, `json-schema` and `protobuf` begin with the id of theirs. Without it they
    begin with none."""


class LogSystem(SpecModel):
    """The embedded log: streams in files of one host. For laptops and tests."""


class GeneratorSystem(SpecModel):
    """Made-up records, the same ones at each replay: rows are a pure function of partition and offset."""

    function: Annotated[FunctionPath, ChangeCost.NEW_RUN]
    """The Python function that makes a batch of rows, as `package.module:function`."""
    rows_per_second: Annotated[int, ChangeCost.RESTART, Field(ge=1, le=1_000_000_000)] = 1000
    """How many rows to make each second, over all partitions of a stream. Default: 1000."""


class System(SpecModel):
    """A place that holds streams; exactly one kind."""

    name: Annotated[Name, ChangeCost.NEW_RUN]
    """What streams call it."""
    kafka: Annotated[KafkaSystem | None, ChangeCost.NEW_RUN] = None
    """An Apache Kafka cluster."""
    log: Annotated[LogSystem | None, ChangeCost.NEW_RUN] = None
    """The embedded log of a single host."""
    generator: Annotated[GeneratorSystem | None, ChangeCost.NEW_RUN] = None
    """Made-up records for demonstrations and load tests."""

    @property
    def kind(self) -> str:
        """`kafka`, `log` or `generator`."""
        return next(kind for kind in ("kafka", "log", "generator") if getattr(self, kind) is not None)


class EventTime(SpecModel):
    """When rows happened, and how late one may come."""

    column: Annotated[ColumnName | None, ChangeCost.NEW_RUN] = None
    """The TIMESTAMP column that says so. Needed, unless `from` is there."""
    from_: Annotated[ShortExpression | None, ChangeCost.NEW_RUN, Field(alias="from")] = None
    """In place of `column`: a field inside a column, as `payload.ts`, or another expression of Spark SQL that fails on
    no row and that Holdfast computes without Spark."""
    unit: Annotated[TimeUnit | None, ChangeCost.NEW_RUN] = None
    """What a number of `from` counts since 1970. Needed where it is a number."""
    lateness: Annotated[Duration, ChangeCost.RESTART] = "0s"
    """How far behind the newest record one may arrive and still count. Default: 0s."""
    max_ahead: Annotated[Duration, ChangeCost.RESTART] = MAX_AHEAD
    """How far ahead of the clock a record may be. One that is farther moves no watermark, and is late, or a dead letter
    where `onDecodeError` says so. Default: 24h."""
    idle_after: Annotated[PositiveDuration | None, ChangeCost.RESTART] = None
    """A partition silent this long no longer holds the watermark back. Default: it does for ever."""

    @property
    def idle_millis(self) -> int | None:
        """`idleAfter` in milliseconds."""
        return None if self.idle_after is None else millis(self.idle_after)

    @property
    def text(self) -> str:
        """What is taken for the time, as it was written."""
        return str(self.column or self.from_)


class RecordSchema(SpecModel):
    """Which schema records have."""

    schema_: Annotated[SchemaText | None, ChangeCost.RESTART, Field(alias="schema")] = None
    """Of all records without a registry, else of those that are written. Default: the latest of the subject, or one
    that is made of the columns."""
    subject: Annotated[Text | None, ChangeCost.RESTART] = None
    """The registry's name of its schemas. Default: the topic with `-value`."""
    register_: Annotated[bool, ChangeCost.RESTART, Field(alias="register")] = False
    """True: the schema that is written is registered where it is not. Default: false."""


class MessageSchema(SpecModel):
    """Which message of which schema records are."""

    schema_: Annotated[SchemaText | None, ChangeCost.RESTART, Field(alias="schema")] = None
    """The text of a `.proto` file, used as that of Avro. Default: the latest of the subject."""
    message: Annotated[Text | None, ChangeCost.RESTART] = None
    """Its full name, e.g. shop.Order. Default: the one that each record says, else the first."""
    subject: Annotated[Text | None, ChangeCost.RESTART] = None
    """The registry's name of its schemas. Default: the topic with `-value`."""
    register_: Annotated[bool, ChangeCost.RESTART, Field(alias="register")] = False
    """True: the schema that is written is registered where it is not. Default: false."""


class CsvRecords(SpecModel):
    """How lines of comma separated values are written."""

    delimiter: Annotated[Literal[",", ";", "\t", "|"], ChangeCost.RESTART] = ","
    """What separates fields. Default: a comma."""
    null_as: Annotated[NullText, ChangeCost.RESTART] = ""
    """What a field without quotes has for null. Default: nothing."""


class Stream(SpecModel):
    """A partitioned sequence of records in a system."""

    name: Annotated[Name, ChangeCost.RESTART]
    """What steps and tables call it. Streams and steps share one space of names."""
    was: Annotated[Name | None, ChangeCost.NEW_RUN] = None
    """The name by which this run knows it, if it is another one: what the stream was called before it was renamed. It
    stays as long as the run does, and so does the topic: name it in `topic`. Default: its name."""
    system: Annotated[Name, ChangeCost.NEW_RUN]
    """The system that holds it."""
    topic: Annotated[Text | None, ChangeCost.NEW_RUN] = None
    """Its name inside the system. Default: the stream's name."""
    partitions: Annotated[PartitionCount | None, ChangeCost.RESTART] = None
    """How many partitions a log or generator stream has, or a topic gets if Holdfast creates it."""
    create: Annotated[bool, ChangeCost.RESTART] = False
    """True: its topic is made if it is not there, though no step of the app writes it. Topics that steps or dead
    letters write are made anyway. Default: false."""
    retention: Annotated[Retention | None, ChangeCost.RESTART] = None
    """How long a topic keeps records if Holdfast makes it, and must if it is there: a duration, or Forever.
    Default: the brokers'."""
    metadata: Annotated[tuple[MetadataItem, ...] | None, ChangeCost.RESTART, Field(min_length=1, max_length=6)] = None
    """What records have beside their values, as columns of these names, or of others with AS: key (as text), keyBytes,
    headers, partition, offset, timestamp. A stream that steps write can have key or keyBytes, and headers."""
    key: Annotated[tuple[ColumnName, ...] | None, ChangeCost.NEW_RUN, Field(min_length=1, max_length=16)] = None
    """The columns its records are partitioned by, in this order, or fields inside columns, as `payload.id`. Default:
    the record's key, where `metadata` has it."""
    partitioner: Annotated[Partitioner, ChangeCost.NEW_RUN] = "murmur2"
    """How a key becomes a partition: murmur2 (Java clients and Holdfast), crc32 (librdkafka's default), or none
    (unknown). Default: murmur2."""
    format: Annotated[ValueFormat, ChangeCost.RESTART] = "json"
    """How a record's value is encoded: json, json-schema, avro, protobuf, csv, string or binary. Default: json."""
    avro: Annotated[RecordSchema | None, ChangeCost.RESTART] = None
    """Which schema its records have, with `format: avro`."""
    json_schema: Annotated[RecordSchema | None, ChangeCost.RESTART] = None
    """Which schema its records have, with `format: json-schema`."""
    protobuf: Annotated[MessageSchema | None, ChangeCost.RESTART] = None
    """Which schema its records have, with `format: protobuf`."""
    csv: Annotated[CsvRecords | None, ChangeCost.RESTART] = None
    """How its records are written, with `format: csv`."""
    changes: Annotated[Literal["debezium"] | None, ChangeCost.RESTART] = None
    """debezium: records are changes of rows in a database, for a table of which it is a source or a step that copies
    them. `schema` has the columns of the rows, `key` those of the primary key."""
    schema_: Annotated[Ddl | None, ChangeCost.RESTART, Field(alias="schema")] = None
    """Its columns as Spark DDL. Needed where the stream is read, unless `avro.schema` or `protobuf.schema` says them;
    string and binary streams have `value` alone."""
    event_time: Annotated[EventTime | None, ChangeCost.RESTART] = None
    """When records happened; needed by joins and windows."""
    start: Annotated[Start | None, ChangeCost.RESTART] = None
    """Where a run begins that has not read it yet: oldest, latest, or a moment as 2026-11-28T06:00:00Z, with the first
    record that its producer or broker stamped then or later. For inputs of steps. Default: oldest."""
    bounded: Annotated[bool, ChangeCost.RESTART] = False
    """True: it ends where it ends when the app starts, and the app can complete. Default: false."""
    control: Annotated[bool, ChangeCost.NEW_RUN] = False
    """True: another app writes it and its records carry watermark and end-of-stream messages. Default: false."""
    on_decode_error: Annotated[Literal["Fail", "Skip", "DeadLetter"], ChangeCost.RESTART] = "Fail"
    """What to do with a record that can't be decoded: stop the app, count and skip it, or write it to `deadLetter`.
    Default: Fail."""
    on_unwritable: Annotated[Literal["Fail", "DeadLetter"], ChangeCost.RESTART] = "Fail"
    """What to do with a row whose record the topic will never take, as it is too large: stop the app before the batch
    is decided, or write it to `deadLetter`. Default: Fail."""
    dead_letter: Annotated[Name | None, ChangeCost.RESTART] = None
    """The stream that takes records that can't be decoded or written, with reason, stream, partition and offset."""

    @property
    def record_schema(self) -> RecordSchema | MessageSchema | None:
        """Which schema its records have, where it says something of that."""
        return self.avro or self.json_schema or self.protobuf

    @property
    def message(self) -> str | None:
        """The message that its records are, where it says so."""
        return None if self.protobuf is None else self.protobuf.message

    @property
    def metadata_pairs(self) -> tuple[tuple[MetadataField, str], ...]:
        """What of the record, and the column that holds it, as often as they were written."""
        items = (item.split(" AS ") for item in self.metadata or ())
        return tuple((cast("MetadataField", item[0]), item[-1]) for item in items)

    @property
    def metadata_columns(self) -> dict[str, MetadataField]:
        """Column -> what of the record it holds."""
        return {column: field for field, column in self.metadata_pairs}

    @property
    def partition_key(self) -> tuple[str, ...] | None:
        """The columns its records are partitioned by, if that is known."""
        record_key = (column for column, field in self.metadata_columns.items() if field in ("key", "keyBytes"))
        return self.key or tuple(record_key)[:1] or None


class TableFiles(SpecModel):
    """Files that are one data set, loaded as a whole when they change."""

    location: Annotated[Text, ChangeCost.RESTART]
    """A file or a folder: s3a://bucket/path or file:///path. What is in folders below it, or begins with _ or a dot,
    is left out."""
    format: Annotated[Literal["parquet", "json", "csv"], ChangeCost.RESTART]
    """How rows are written: parquet, json (an object a line), csv (names in the first line)."""
    every: Annotated[PositiveDuration, ChangeCost.RESTART] = "1m"
    """How often the files are looked at. Default: 1m."""


class Table(SpecModel):
    """Rows by key, kept beside the tasks: fed by side inputs (`sources`), by `files`, or by `toTable` steps."""

    name: Annotated[Name, ChangeCost.RESTART]
    """What `lookup`, `process` and `toTable` call it."""
    # Not more: "a side input is not read or written by steps" would exceed what a rule may cost the API server.
    # What it costs is judged by `made_by`, under the names that the run has for streams.
    sources: Annotated[tuple[Name, ...] | None, ChangeCost.RESTART, Field(min_length=1, max_length=8)] = None
    """Side inputs: streams whose records are its rows. Without them or `files`, `toTable` steps write it. The run
    refuses others."""
    files: Annotated[TableFiles | None, ChangeCost.RESTART] = None
    """Files whose rows are its rows; needs `distribution: Broadcast`, `versioned: true` and a `schema`."""
    key: Annotated[tuple[ColumnName, ...], ChangeCost.NEW_RUN, Field(min_length=1, max_length=16)]
    """The columns that name a row. A later row of the same key replaces the earlier one."""
    schema_: Annotated[Ddl | None, ChangeCost.RESTART, Field(alias="schema")] = None
    """Its columns as Spark DDL: those of `files`, or where rows written to it are derived from look-ups in itself."""
    select: Annotated[tuple[Expression, ...] | None, ChangeCost.NEW_RUN, Field(min_length=1, max_length=200)] = None
    """Spark SQL expressions: what of a source's row is kept. Default: all of it."""
    distribution: Annotated[Literal["Partitioned", "Broadcast"], ChangeCost.NEW_RUN] = "Partitioned"
    """Partitioned: each task holds the rows of its keys. Broadcast: one whole copy per location.
    Default: Partitioned."""
    bootstrap: Annotated[bool, ChangeCost.RESTART] = True
    """True: main inputs wait until the table is loaded. Default: true."""
    persistent: Annotated[bool, ChangeCost.RESTART] = True
    """True: kept on disk across restarts. False: in memory. Default: true."""
    max_age: Annotated[PositiveDuration | None, ChangeCost.RESTART] = None
    """A local copy this old is not trusted and loaded anew. Default: any age."""
    versioned: Annotated[bool, ChangeCost.NEW_RUN] = False
    """True: the source is a data set that is replaced as a whole; look-ups see one version at a time.
    Default: false."""
