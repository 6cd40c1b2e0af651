"""For every field of the spec, values it must take and values it must refuse; the tests make specs of them.

A field of the model that has no row here fails a test.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_WRONG: dict[str, tuple[Any, ...]] = {
    "text": (5, True, ["x"], {"x": "y"}),
    "int": ("5", True, 1.5, [5], {}, -1, 0, 10**30),
    "count": ("5", True, 1.5, [5], {}, -1, 10**30),
    "bool": ("true", 1, [], {}),
    "list": ("x", {}, 5, [], [None], [[]]),
    "values": ("x", {}, 5, [None], [[]]),
    "object": ("x", 5, [], True),
    "map": ("x", 5, [], True),
}
"""Values that no field of a kind takes."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a field takes and refuses."""

    path: str
    kind: str
    good: tuple[Any, ...] = ()
    bad: tuple[Any, ...] = ()
    required: bool = False

    @property
    def refused(self) -> Iterator[Any]:
        """All values it must refuse."""
        yield from _WRONG[self.kind]
        yield from self.bad


_LONG = "x" * 63
_NAME_BAD = ("", "-a", "a-", "a_b", "a.b", "a b", "ä", "a\n", _LONG + "x")
_OBJECT_GOOD = ("a", "a-b.c-d", "0", "x" * 253)
_OBJECT_BAD = ("", "A", "-a", "a-", "a..b", ".a", "a.", "a_b", "x" * 254)
_LENGTH = ("1s", "500ms", "10m", "1h30m", "1h1m1s1ms", "999999h", "9999999m", "999999999s")
_NO_LENGTH = ("", "5", "s", "1d", "1s1h", "-1s", "1.5s", " 1s", "1s ", "1 s", "9999999h", "1s\n", "x" * 41)
_ZERO = ("0s", "0h0m", "000ms")
_MEMORY = ("512m", "1g", "2Gi", "4096k", "1t", "100Mi")
_NO_MEMORY = ("", "1", "g", "0g", "1G", "1.5g", "01g", "-1g", "1g ", "1234567890g")
_FUNCTION = ("m:f", "a.b_c:d", "_x:_y")
_NO_FUNCTION = ("", "f", "a.b", "a:", ":f", "a:b:c", "1a:f", "a-b:f", "a..b:f", "m:" + "f" * 254)
_COLUMNS = (["a"], ["a", "b"], ["with space"], ["c"] * 16)
_NO_COLUMNS = ([""], [5], ["c"] * 17, ["c" * 256])
_EXPRESSIONS = (["a AS b"], ["1"] * 200, ["x" * 8192])
_NO_EXPRESSIONS = ([""], [5], ["1"] * 201, ["x" * 8193])
_DDL, _NO_DDL = ("a INT", "x" * 16384), ("", "x" * 16385)
_SHORT_DDL, _NO_SHORT_DDL = ("a INT", "x" * 4096), ("", "x" * 4097)
_COUNTS, _NO_COUNTS = (1, 7, 100_000), (100_001,)
_POD: tuple[dict[str, Any], ...] = ({}, {"spec": {"containers": [{"name": "x", "env": None}], "anything": 5}})
_CORES = (1, 1024)
_NO_MOMENTS = (
    "2026-11-28T06:00:00+01:00",
    "2026-02-29T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "0000-01-01T00:00:00Z",
)

_SYSTEMS = (
    Row("spec.systems", "list", (), ([5], [{}])),
    Row("spec.systems.events", "object"),
    Row("spec.systems.events.name", "text", (), _NAME_BAD, required=True),
    Row("spec.systems.events.kafka", "object"),
    Row("spec.systems.events.kafka.bootstrapServers", "text", ("a:1,b:2", "x" * 4096), ("", "x" * 4097), required=True),
    Row(
        "spec.systems.events.kafka.config",
        "map",
        ({}, {"a": "", "b": "x" * 9999}, {"a": None}, {str(n): "x" for n in range(200)}),
        ({"a": 5}, {"a": True}, {"a": ["b"]}, {str(n): "x" for n in range(201)}),
    ),
    Row("spec.systems.events.kafka.secretName", "text", _OBJECT_GOOD, _OBJECT_BAD),
    Row("spec.systems.events.kafka.delivery", "text", ("ExactlyOnce", "AtLeastOnce"), ("", "exactlyOnce", "Once")),
    Row("spec.systems.events.kafka.replication", "int", (1, 2, 32_767), (32_768,)),
    Row("spec.systems.events.kafka.registry", "object", (), ({},)),
    Row(
        "spec.systems.events.kafka.registry.url",
        "text",
        ("https://a", "http://a.b:8081/c", "https://a/" + "x" * 1014),
        (
            "",
            "a:8081",
            "ftp://a",
            "https://",
            "https://user:word@a",
            "https://a/?b",
            "https://a b",
            "https://a/" + "x" * 1015,
        ),
        required=True,
    ),
    Row("spec.systems.events.kafka.registry.secretName", "text", _OBJECT_GOOD, _OBJECT_BAD),
    Row("spec.systems.files.log", "object", ({},), ({"folder": "x"},)),
    Row("spec.systems.made.generator", "object", (), ({},)),
    Row("spec.systems.made.generator.function", "text", _FUNCTION, _NO_FUNCTION, required=True),
    Row("spec.systems.made.generator.rowsPerSecond", "int", (1, 1_000_000_000), (1_000_000_001,)),
)


def _resources(path: str) -> tuple[Row, ...]:
    good: tuple[dict[str, Any], ...] = ({}, {"cpu": "500m", "memory": "1.5Gi", "example.org/gpu": "1"}, {"cpu": None})
    bad = ({"cpu": 5}, {"cpu": ""}, {"cpu": "x"}, {"cpu": "-1"}, {"cpu": "1 m"}, {str(n): "1" for n in range(21)})
    return (
        Row(path, "object", ({},), ({"cpu": "1"},)),
        Row(f"{path}.requests", "map", good, bad),
        Row(f"{path}.limits", "map", good, bad),
    )


def _sourced(**source: Any) -> list[Any]:
    return [{"name": "A", "valueFrom": source}]


_KEY = {"name": "api", "key": "a.b_c-D"}


def _placed(path: str) -> tuple[Row, ...]:
    """Return the rows of what a user says of the pods of a part, beside their resources."""
    nodes: tuple[Any, ...] = ({}, {"a": ""}, {"example.org/A_b.c": "D-e_f.0"}, {"a": None}, {"a" * 63: "b" * 63})
    no_nodes = ({"": "a"}, {"a b": "c"}, {"a": "-"}, {"A/b": "c"}, {"a": 5}, {"a" * 64: "b"}, {"a": "b" * 64})
    tolerations: tuple[Any, ...] = (
        [],
        [{"operator": "Exists", "value": "", "effect": "NoExecute", "tolerationSeconds": 0}],
        [{"key": "a", "operator": "Equal"}, {"key": "example.org/b", "value": "c", "effect": "PreferNoSchedule"}],
    )
    no_tolerations: tuple[Any, ...] = (
        [{}],
        [5],
        [{"key": ""}],
        [{"operator": "Exists", "value": "x"}],
        [{"key": "a", "operator": "In"}],
        [{"key": "a", "effect": "NoExecutes"}],
        [{"key": "a", "tolerationSeconds": 5}],
        [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}],
        [{"key": "a", "seconds": 5}],
    )
    variables: tuple[Any, ...] = (
        [],
        [{"name": "A"}, {"name": "a.b-C_1", "value": "x=$(A)"}, {"name": "_", "value": ""}],
        [{"name": "A_PASSWORD"}, {"name": "TOKENS", "value": "3"}],
        _sourced(secretKeyRef=_KEY),
        _sourced(configMapKeyRef={**_KEY, "optional": True}),
        _sourced(fieldRef={"fieldPath": "metadata.labels['example.org/zone']"}),
        _sourced(fieldRef={"fieldPath": "status.podIP"}),
    )
    no_variables: tuple[Any, ...] = (
        [{}],
        [{"name": ""}],
        [{"name": "1A"}],
        [{"name": "A B"}],
        [{"name": "A", "value": 5}],
        [{"name": "A"}, {"name": "A"}],
        [{"name": "HOLDFAST_ATTEMPT", "value": "1"}],
        [{"name": "SPARK_EXECUTOR_ATTRIBUTE_POD"}],
        [{"name": "AWS_SECRET_ACCESS_KEY", "value": "x"}],
        [{"name": "A", "value": "x", "valueFrom": {"secretKeyRef": _KEY}}],
        _sourced(),
        _sourced(secretKeyRef=_KEY, configMapKeyRef=_KEY),
        _sourced(secretKeyRef={"name": "api"}),
        _sourced(secretKeyRef={"name": "API", "key": "a"}),
        _sourced(secretKeyRef={"name": "api", "key": "a/b"}),
        _sourced(fieldRef={"fieldPath": "spec.containers"}),
        _sourced(resourceFieldRef={"resource": "limits.cpu"}),
    )
    return (
        Row(f"{path}.nodeSelector", "map", nodes, no_nodes),
        Row(f"{path}.tolerations", "values", tolerations, no_tolerations),
        Row(f"{path}.env", "values", variables, no_variables),
    )


def _event_time(named: str, computed: str) -> tuple[Row, ...]:
    """Return the rows of an event time that is a column, and of one that is computed."""
    return (
        Row(f"{named}.eventTime.column", "text", ("x", "x" * 255), ("", "x" * 256), required=True),
        Row(f"{named}.eventTime.lateness", "text", (*_LENGTH, *_ZERO), _NO_LENGTH),
        Row(f"{named}.eventTime.maxAhead", "text", (*_LENGTH, *_ZERO), _NO_LENGTH),
        Row(f"{named}.eventTime.idleAfter", "text", _LENGTH, (*_NO_LENGTH, *_ZERO)),
        Row(f"{computed}.eventTime.from", "text", ("x", "x" * 1024), ("", "x" * 1025), required=True),
        Row(f"{computed}.eventTime.unit", "text", ("Seconds", "Microseconds"), ("", "ms", "Nanoseconds")),
    )


_STREAMS = (
    Row("spec.streams", "list", (), ([5], [{}])),
    Row("spec.streams.clicks", "object"),
    Row("spec.streams.attributed.name", "text", (), _NAME_BAD, required=True),
    Row("spec.streams.attributed.was", "text", ("a", "A9-b", _LONG), _NAME_BAD),
    Row("spec.streams.clicks.system", "text", ("files", "made"), (*_NAME_BAD, "nowhere"), required=True),
    Row("spec.streams.impressions.topic", "text", ("x", "x" * 4096), ("", "x" * 4097)),
    Row("spec.streams.impressions.partitions", "int", _COUNTS, _NO_COUNTS),
    Row("spec.streams.impressions.create", "bool", (False,)),
    Row(
        "spec.streams.impressions.retention",
        "text",
        (*_LENGTH, *_ZERO, "Forever"),
        (*_NO_LENGTH, "forever", "Forever1s"),
    ),
    Row("spec.streams.impressions.key", "list", _COLUMNS, _NO_COLUMNS),
    Row("spec.streams.impressions.partitioner", "text", ("murmur2", "none"), ("", "Murmur2")),
    Row("spec.streams.impressions.format", "text", ("json", "avro", "csv", "binary"), ("", "arrow", "jsonSchema")),
    Row(
        "spec.streams.ticks.start",
        "text",
        ("oldest", "latest", "2026-11-28T06:00:00Z", "0001-01-01T00:00:00.5Z", "2024-02-29T23:59:59.999Z"),
        ("", "Latest", "latest\n", "2026-11-28", "2026-11-28T06:00:00", *_NO_MOMENTS),
    ),
    Row("spec.streams.campaigns.changes", "text", ("debezium",), ("", "Debezium", "maxwell")),
    Row("spec.streams.clicks.avro", "object", ({},), ({"schemas": "x"},)),
    Row("spec.streams.clicks.avro.schema", "text", ("x", "x" * 65_536), ("", "x" * 65_537)),
    Row("spec.streams.clicks.avro.subject", "text", ("x", "x" * 4096), ("", "x" * 4097)),
    Row("spec.streams.clicks.avro.register", "bool", (False,)),
    Row("spec.streams.attributed.jsonSchema", "object", ({},), ({"schemas": "x"},)),
    Row("spec.streams.attributed.jsonSchema.schema", "text", ("x", "x" * 65_536), ("", "x" * 65_537)),
    Row("spec.streams.attributed.jsonSchema.subject", "text", ("x", "x" * 4096), ("", "x" * 4097)),
    Row("spec.streams.attributed.jsonSchema.register", "bool", (False,)),
    Row("spec.streams.owners.protobuf", "object", ({},), ({"schemas": "x"},)),
    Row("spec.streams.owners.protobuf.schema", "text", ("x", "x" * 65_536), ("", "x" * 65_537)),
    Row("spec.streams.owners.protobuf.message", "text", ("x", "x" * 4096), ("", "x" * 4097)),
    Row("spec.streams.owners.protobuf.subject", "text", ("x", "x" * 4096), ("", "x" * 4097)),
    Row("spec.streams.owners.protobuf.register", "bool", (False,)),
    Row("spec.streams.sales.csv", "object", ({},), ({"header": True},)),
    Row("spec.streams.sales.csv.delimiter", "text", (",", "\t", "|"), ("", ".", ";;", "a")),
    Row("spec.streams.sales.csv.nullAs", "text", ("", "\\N", "#N/A", "x" * 32), ("a b", '""', ",", "é", "x" * 33)),
    Row("spec.streams.impressions.schema", "text", _DDL, _NO_DDL),
    Row("spec.streams.impressions.eventTime", "object", ({"column": "other"},), ({}, {"column": "ts", "late": "1s"})),
    *_event_time("spec.streams.impressions", "spec.streams.ticks"),
    Row(
        "spec.streams.clicks.metadata",
        "list",
        (["key"], ["key AS a", "keyBytes", "headers", "partition", "offset", "timestamp"]),
        ([], [""], ["Key"], ["key as a"], ["key AS "], ["key AS a.b"], ["value"], ["key"] * 7, "key"),
    ),
    Row("spec.streams.impressions.bounded", "bool", (False,)),
    Row("spec.streams.impressions.control", "bool", (False,)),
    Row("spec.streams.clicks.onDecodeError", "text", ("Fail",), ("", "fail", "DeadLetter")),
    Row("spec.streams.impressions.onUnwritable", "text", ("DeadLetter",), ("", "fail", "Skip")),
    Row("spec.streams.impressions.deadLetter", "text", ("attributed",), (*_NAME_BAD, "nowhere", "impressions")),
)
_TABLES = (
    Row("spec.tables", "list", (), ([5], [{}], [{"name": "x"}])),
    Row("spec.tables.campaign-info", "object"),
    Row("spec.tables.campaign-info.name", "text", (), _NAME_BAD, required=True),
    Row("spec.tables.campaign-info.sources", "list", (["campaigns", "owners"],), ([""], [5], ["nowhere"])),
    Row("spec.tables.campaign-info.key", "list", _COLUMNS, _NO_COLUMNS, required=True),
    Row("spec.tables.last-click.schema", "text", _DDL, _NO_DDL),
    Row("spec.tables.campaign-info.select", "list", _EXPRESSIONS, _NO_EXPRESSIONS),
    Row("spec.tables.campaign-info.distribution", "text", ("Partitioned",), ("", "broadcast")),
    Row("spec.tables.campaign-info.bootstrap", "bool", (True,)),
    Row("spec.tables.campaign-info.persistent", "bool", (True,)),
    Row("spec.tables.campaign-info.maxAge", "text", _LENGTH, (*_NO_LENGTH, *_ZERO)),
    Row("spec.tables.campaign-info.versioned", "bool", (False,)),
    Row("spec.tables.rates.files", "object"),
    Row("spec.tables.rates.files.location", "text", ("file:///rates.csv",), ("", 5), required=True),
    Row("spec.tables.rates.files.format", "text", ("parquet", "json"), ("", "CSV", "orc"), required=True),
    Row("spec.tables.rates.files.every", "text", _LENGTH, (*_NO_LENGTH, *_ZERO)),
)
_STEPS = (
    Row("spec.steps", "list", (), ([5], [{}], [{"name": "x", "from": ["clicks"]}])),
    Row("spec.steps.out", "object"),
    Row("spec.steps.out.name", "text", ("a", "A9-b", _LONG), _NAME_BAD, required=True),
    Row(
        "spec.steps.all-clicks.from", "list", (["valid"], ["valid"] * 16), (["valid"] * 17, [""], ["?"]), required=True
    ),
    Row("spec.steps.short.eventTime", "object", ({"column": "other"},), ({}, {"column": "ts", "from": "ts"})),
    *_event_time("spec.steps.short", "spec.steps.scored"),
    Row("spec.steps.valid.onError", "text", (), ("", "fail", "Skip", "Fail")),
    Row("spec.steps.valid.deadLetter", "text", ("attributed",), (*_NAME_BAD, "nowhere", "valid")),
    Row("spec.steps.first.late", "text", (), ("", "late", "Fail", "Drop")),
    Row("spec.steps.valid.filter", "text", ("x", "x" * 8192), ("", "x" * 8193), required=True),
    Row("spec.steps.short.select", "list", _EXPRESSIONS, _NO_EXPRESSIONS, required=True),
    Row("spec.steps.all-clicks.merge", "object", ({},), ({"x": 1},), required=True),
    Row("spec.steps.scored.apply", "object", ({"function": "a:b"},), ({},), required=True),
    Row("spec.steps.scored.apply.function", "text", _FUNCTION, _NO_FUNCTION, required=True),
    Row("spec.steps.scored.apply.concurrency", "int", (1, 10_000), (10_001,), required=True),
    Row("spec.steps.scored.apply.timeout", "text", _LENGTH, (*_NO_LENGTH, *_ZERO)),
    Row("spec.steps.scored.apply.retries", "int", (1, 100), (101,)),
    Row("spec.steps.scored.apply.schema", "text", _DDL, _NO_DDL),
    Row("spec.steps.scored.apply.keeps", "list", _COLUMNS, _NO_COLUMNS),
    Row("spec.steps.tracked.was", "text", ("a", "A9-b", _LONG), _NAME_BAD),
    Row(
        "spec.steps.tracked.process",
        "object",
        ({"function": "a:b", "by": ["x"]},),
        ({}, {"function": "a:b"}),
        required=True,
    ),
    Row("spec.steps.tracked.process.function", "text", _FUNCTION, _NO_FUNCTION, required=True),
    Row("spec.steps.tracked.process.form", "text", ("Batch",), ("", "batch", "Rows"), required=True),
    Row("spec.steps.tracked.process.state", "text", _SHORT_DDL, _NO_SHORT_DDL, required=True),
    Row("spec.steps.tracked.process.by", "list", _COLUMNS, _NO_COLUMNS, required=True),
    Row("spec.steps.tracked.process.schema", "text", _DDL, _NO_DDL),
    Row("spec.steps.tracked.process.keeps", "list", _COLUMNS, _NO_COLUMNS),
    Row("spec.steps.tracked.process.ttl", "text", _LENGTH, (*_NO_LENGTH, *_ZERO)),
    Row(
        "spec.steps.tracked.process.tables",
        "list",
        (["rates"], ["last-click"], ["rates"] * 16),
        ([], ["rates"] * 17, [""], [5], ["nowhere"], ["rates", "impressions"]),
    ),
    Row("spec.steps.first.deduplicate", "object", ({"by": ["x"]},), ({},), required=True),
    Row("spec.steps.first.deduplicate.by", "list", _COLUMNS, _NO_COLUMNS, required=True),
    Row("spec.steps.first.deduplicate.within", "text", _LENGTH, (*_NO_LENGTH, *_ZERO)),
    Row(
        "spec.steps.counts.aggregate",
        "object",
        ({"by": ["x"], "compute": ["1 AS n"]},),
        ({}, {"by": ["x"]}),
        required=True,
    ),
    Row("spec.steps.counts.aggregate.by", "list", _COLUMNS, _NO_COLUMNS, required=True),
    Row("spec.steps.counts.aggregate.window", "text", ("1m", "60s", "999999h"), (*_NO_LENGTH, *_ZERO), required=True),
    Row("spec.steps.counts.aggregate.slide", "text", ("1ms", "2m", "120s"), (*_NO_LENGTH, *_ZERO, "121s", "2m1ms")),
    Row("spec.steps.visits.aggregate.session", "text", _LENGTH, (*_NO_LENGTH, *_ZERO)),
    Row("spec.steps.counts.aggregate.emit", "text", ("Final",), ("", "final", "Append")),
    Row("spec.steps.counts.aggregate.compute", "list", _EXPRESSIONS, _NO_EXPRESSIONS, required=True),
    Row(
        "spec.steps.matched.join",
        "object",
        ({"by": ["x"], "within": "0s"}, {"by": ["x"], "before": "1m"}, {"by": ["x"], "before": "1m", "after": "0s"}),
        ({}, {"by": ["x"]}, {"by": ["x"], "within": "1m", "after": "1m"}),
        required=True,
    ),
    Row("spec.steps.matched.join.by", "list", _COLUMNS, _NO_COLUMNS, required=True),
    Row("spec.steps.matched.join.within", "text", (*_LENGTH, *_ZERO), _NO_LENGTH, required=True),
    Row("spec.steps.paired.join.before", "text", (*_LENGTH, *_ZERO), _NO_LENGTH),
    Row("spec.steps.paired.join.after", "text", (*_LENGTH, *_ZERO), _NO_LENGTH),
    Row("spec.steps.matched.join.type", "text", ("Inner", "Right", "Full"), ("", "inner")),
    Row("spec.steps.matched.join.select", "list", _EXPRESSIONS, _NO_EXPRESSIONS),
    Row("spec.steps.enriched.lookup", "object", ({"table": "last-click", "by": ["x"]},), ({},), required=True),
    Row("spec.steps.enriched.lookup.table", "text", ("last-click",), (*_NAME_BAD, "nowhere"), required=True),
    Row("spec.steps.enriched.lookup.by", "list", _COLUMNS, _NO_COLUMNS, required=True),
    Row("spec.steps.enriched.lookup.type", "text", ("Left",), ("", "Full")),
    Row("spec.steps.enriched.lookup.select", "list", _EXPRESSIONS, _NO_EXPRESSIONS),
    Row("spec.steps.by-campaign.repartition", "object", ({"by": ["x"]},), ({},), required=True),
    Row("spec.steps.by-campaign.repartition.by", "list", _COLUMNS, _NO_COLUMNS, required=True),
    Row("spec.steps.everywhere.broadcast", "object", ({},), ({"x": 1},), required=True),
    Row("spec.steps.out.to", "text", ("unread",), (*_NAME_BAD, "nowhere"), required=True),
    Row("spec.steps.keep.toTable", "text", (), (*_NAME_BAD, "nowhere"), required=True),
)
_RUN = (
    Row("spec.runId", "text", ("2", "a.b_c-d", _LONG), ("", "-a", "a-", "a b", _LONG + "x")),
    Row("spec.planning", "object", ({},), ({"x": 1},)),
    Row("spec.planning.intermediatePartitions", "int", _COUNTS, _NO_COUNTS),
    Row("spec.planning.maxIntermediatePartitions", "int", _COUNTS, _NO_COUNTS),
    Row("spec.grouping", "text", (), ("", "ByStreamPartition", "byPartition")),
    Row("spec.expansion", "object", ({},), ({"x": 1},)),
    Row("spec.expansion.enabled", "bool", (True,)),
    Row(
        "spec.expansion.parent",
        "text",
        ("partition % previous", "(current - 1) * 2", "0"),
        ("", "x", "partition; 1", "1" * 201),
    ),
    Row("spec.expansion.grace", "text", (*_LENGTH, *_ZERO), _NO_LENGTH),
    Row("spec.runtime", "object", ({},), ({"x": 1},)),
    Row("spec.runtime.serviceAccountName", "text", _OBJECT_GOOD, _OBJECT_BAD),
    Row("spec.runtime.image", "text", ("x", "x" * 4096), ("", "x" * 4097)),
    Row(
        "spec.runtime.code",
        "map",
        (
            {},
            {"a_b": "", "_": "x" * 9999},
            {"p": "", "p.b": "", "p.c.d": ""},
            {"a": None},
            {f"m{n}": "" for n in range(100)},
            {"m" * 100: ""},
        ),
        (
            {"a..b": ""},
            {"a.": ""},
            {".a": ""},
            {"a.1": ""},
            {"1": ""},
            {"": ""},
            {"a": 5},
            {"m" * 101: ""},
            {f"m{n}": "" for n in range(101)},
        ),
    ),
    Row("spec.runtime.trigger", "object", ({},), ({"x": 1},)),
    Row("spec.runtime.trigger.interval", "text", (*_LENGTH, *_ZERO), _NO_LENGTH),
    Row("spec.runtime.trigger.maxRecordsPerPartition", "int", (1, 1_000_000_000), (1_000_000_001,)),
    Row("spec.runtime.checkpoint", "object", (), ({}, {"location": "file:///x", "x": 1})),
    Row(
        "spec.runtime.checkpoint.location",
        "text",
        ("file:///x",),
        ("", "x", "/x", "s3a://", "S3A://x", "1a:/x", "s3a:/" + "x" * 1020, "s3a://bucket/x", "file://host/x"),
    ),
    Row("spec.runtime.checkpoint.claim", "text", _OBJECT_GOOD, _OBJECT_BAD),
    Row(
        "spec.runtime.checkpoint.retention",
        "text",
        (*_LENGTH, *_ZERO, "Forever"),
        (*_NO_LENGTH, "forever", "Forever1s"),
    ),
    Row("spec.runtime.checkpoint.changelog", "object", ({"system": "events"},), ({}, {"system": "events", "x": 1})),
    Row(
        "spec.runtime.checkpoint.changelog.system",
        "text",
        (),
        (*_NAME_BAD, "nowhere", "files"),
        required=True,
    ),
    Row("spec.runtime.checkpoint.changelog.partitions", "int", (1, 1000), (1001,)),
    Row("spec.runtime.driver", "object", ({},), ({"x": 1},)),
    Row("spec.runtime.driver.cores", "int", _CORES, (1025,)),
    Row("spec.runtime.driver.memory", "text", _MEMORY, _NO_MEMORY),
    *_resources("spec.runtime.driver.resources"),
    *_placed("spec.runtime.driver"),
    Row("spec.runtime.driver.podTemplate", "object", _POD),
    Row("spec.runtime.executors", "object", ({},), ({"x": 1},)),
    Row("spec.runtime.executors.count", "int", (1, 10_000), (10_001,)),
    Row("spec.runtime.executors.cores", "int", _CORES, (1025,)),
    Row("spec.runtime.executors.memory", "text", _MEMORY, _NO_MEMORY),
    *_resources("spec.runtime.executors.resources"),
    *_placed("spec.runtime.executors"),
    Row("spec.runtime.executors.podTemplate", "object", _POD),
    Row("spec.runtime.lineage", "object", (), ({},)),
    Row(
        "spec.runtime.lineage.url",
        "text",
        ("https://a", "http://a.b:8081/c"),
        ("", "a:8081", "ftp://a", "https://user:word@a", "https://a/?b"),
        required=True,
    ),
    Row("spec.runtime.lineage.namespace", "text", ("x", "x" * 4096), ("", "x" * 4097)),
    Row("spec.runtime.lineage.secretName", "text", _OBJECT_GOOD, _OBJECT_BAD),
    Row("spec.runtime.replan", "int", (1, 1_000_000_000_000), (1_000_000_000_001,)),
    Row("spec.runtime.sparkConf", "map", ({}, {"a": ""}, {"a": None}), ({"a": 5}, {"a": True})),
    Row("spec.state", "object", ({},), ({"x": 1},)),
    Row("spec.state.location", "text", (), ("", "claim", "{}", "{a", "a}", "x" * 254, "Node", "{node.name}")),
    Row("spec.state.storageClass", "text", _OBJECT_GOOD, _OBJECT_BAD),
    Row(
        "spec.state.size", "text", ("1", "1.5Gi", "500M", "0.001"), ("", "0", "0.0Gi", "Gi", "1g", "-1", "1.", "1.0001")
    ),
    Row("spec.state.onCompletion", "text", ("Release", "Keep"), ("", "keep")),
    Row("spec.restart", "object", ({},), ({"x": 1},)),
    Row("spec.restart.policy", "text", ("Always", "Never"), ("", "never")),
    Row("spec.restart.backoff", "object", ({}, {"initial": "5m"}, {"max": "5s"}), ({"initial": "301s"}, {"max": "4s"})),
    Row("spec.restart.backoff.initial", "text", ("1ms", "1m", "60s"), (*_NO_LENGTH, *_ZERO, "61s", "1h")),
    Row("spec.restart.backoff.max", "text", ("1s", "1h", "999999h"), (*_NO_LENGTH, *_ZERO, "999ms")),
    Row("spec.restart.resetAfter", "text", _LENGTH, (*_NO_LENGTH, *_ZERO)),
    Row("spec.alerts", "object", ({},), ({"x": 1},)),
    Row("spec.alerts.maxLag", "text", _LENGTH, (*_NO_LENGTH, *_ZERO)),
    Row("spec.alerts.deadLetters", "count", (0, 1, 1_000_000_000), (1_000_000_001,)),
    Row("spec.onPartitionGrowth", "text", ("Restart", "Live"), ("", "halt")),
    Row("spec.suspend", "bool", (False,)),
)
ROWS = (*_SYSTEMS, *_STREAMS, *_TABLES, *_STEPS, *_RUN)
