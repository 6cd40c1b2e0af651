"""One good StreamApp that uses every field, for tests to break in one place at a time."""

import pickle
from collections.abc import Sequence
from typing import Any

BASE: dict[str, Any] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "ad-clicks"},
    "spec": {
        "runId": "1",
        "systems": [
            {
                "name": "events",
                "kafka": {
                    "bootstrapServers": "kafka:9092",
                    "config": {"client.id": "holdfast"},
                    "secretName": "kafka-auth",
                    "delivery": "ExactlyOnce",
                    "replication": 3,
                    "registry": {"url": "https://registry:8081", "secretName": "registry-auth"},
                },
            },
            {"name": "files", "log": {}},
            {"name": "made", "generator": {"function": "ads.demo:impressions", "rowsPerSecond": 500}},
        ],
        "streams": [
            {
                "name": "impressions",
                "system": "events",
                "topic": "ads.impressions",
                "partitions": 8,
                "create": True,
                "retention": "168h",
                "key": ["ad_id"],
                "partitioner": "crc32",
                "format": "string",
                "schema": "ad_id STRING, campaign STRING, ts TIMESTAMP",
                "eventTime": {"column": "ts", "lateness": "10s", "maxAhead": "1h", "idleAfter": "30s"},
                "bounded": True,
                "control": True,
                "onDecodeError": "DeadLetter",
                "onUnwritable": "Fail",
                "deadLetter": "unread",
            },
            {
                "name": "clicks",
                "system": "events",
                "metadata": ["offset", "headers AS trace"],
                "key": ["ad_id"],
                "format": "avro",
                "avro": {"schema": '"string"', "subject": "ads.clicks-value", "register": True},
                "schema": "ad_id STRING, ts TIMESTAMP",
                "onDecodeError": "Skip",
            },
            {
                "name": "campaigns",
                "system": "events",
                "key": ["campaign"],
                "changes": "debezium",
                "schema": "campaign STRING, owner STRING",
            },
            {
                "name": "attributed",
                "was": "results",
                "system": "files",
                "topic": "results",
                "format": "json-schema",
                "jsonSchema": {"schema": "{}", "subject": "results-value", "register": True},
            },
            {"name": "unread", "system": "files"},
            {
                "name": "owners",
                "system": "files",
                "format": "protobuf",
                "protobuf": {
                    "schema": "message Owner {}",
                    "message": "Owner",
                    "subject": "owners-value",
                    "register": True,
                },
            },
            {
                "name": "sales",
                "system": "files",
                "format": "csv",
                "csv": {"delimiter": ";", "nullAs": "NULL"},
                "schema": "shop STRING, cents BIGINT",
            },
            {
                "name": "ticks",
                "system": "made",
                "schema": "ad_id STRING, seen STRUCT<at: BIGINT>",
                "eventTime": {"from": "seen.at", "unit": "Milliseconds"},
                "start": "latest",
            },
        ],
        "tables": [
            {
                "name": "campaign-info",
                "sources": ["campaigns"],
                "key": ["campaign"],
                "select": ["campaign", "owner"],
                "distribution": "Broadcast",
                "bootstrap": False,
                "persistent": False,
                "maxAge": "24h",
                "versioned": True,
            },
            {"name": "last-click", "key": ["ad_id"], "schema": "ad_id STRING, ts TIMESTAMP"},
            {
                "name": "rates",
                "files": {"location": "s3a://reference/rates", "format": "csv", "every": "5m"},
                "key": ["currency"],
                "schema": "currency STRING, rate DOUBLE",
                "distribution": "Broadcast",
                "versioned": True,
            },
        ],
        "steps": [
            {
                "name": "valid",
                "from": ["clicks"],
                "filter": "ad_id IS NOT NULL",
                "onError": "DeadLetter",
                "deadLetter": "unread",
            },
            {
                "name": "short",
                "from": ["valid"],
                "select": ["ad_id", "ts"],
                "eventTime": {"column": "ts", "lateness": "10s", "maxAhead": "1h", "idleAfter": "30s"},
            },
            {"name": "all-clicks", "from": ["valid", "ticks"], "merge": {}},
            {
                "name": "scored",
                "from": ["all-clicks"],
                "apply": {
                    "function": "ads.score:score",
                    "concurrency": 8,
                    "timeout": "2s",
                    "retries": 3,
                    "schema": "ad_id STRING, score INT",
                    "keeps": ["ad_id"],
                },
                "eventTime": {"from": "score", "unit": "Seconds"},
            },
            {
                "name": "tracked",
                "was": "seen",
                "from": ["scored"],
                "process": {
                    "function": "ads.track:track",
                    "form": "Batch",
                    "by": ["ad_id"],
                    "state": "seen LONG",
                    "schema": "ad_id STRING, seen LONG",
                    "keeps": ["ad_id"],
                    "ttl": "7h",
                    "tables": ["rates", "campaign-info"],
                },
            },
            {
                "name": "first",
                "from": ["valid"],
                "deduplicate": {"by": ["ad_id"], "within": "1h"},
                "late": "DeadLetter",
                "deadLetter": "unread",
            },
            {
                "name": "matched",
                "from": ["valid", "impressions"],
                "join": {"by": ["ad_id"], "within": "10m", "type": "Left", "select": ["ad_id", "right.campaign"]},
            },
            {
                "name": "paired",
                "from": ["valid", "impressions"],
                "join": {"by": ["ad_id"], "before": "1m", "after": "1h", "select": ["ad_id"]},
            },
            {
                "name": "enriched",
                "from": ["matched"],
                "lookup": {"table": "campaign-info", "by": ["campaign"], "type": "Inner", "select": ["right.owner"]},
            },
            {"name": "by-campaign", "from": ["matched"], "repartition": {"by": ["campaign"]}},
            {
                "name": "counts",
                "from": ["by-campaign"],
                "aggregate": {
                    "by": ["campaign"],
                    "window": "2m",
                    "slide": "1m",
                    "emit": "Update",
                    "compute": ["count(*) AS n"],
                },
            },
            {
                "name": "visits",
                "from": ["valid"],
                "aggregate": {"by": ["ad_id"], "session": "5m", "compute": ["1 AS n"]},
            },
            {"name": "totals", "from": ["valid"], "aggregate": {"by": ["ad_id"], "compute": ["count(*) AS n"]}},
            {"name": "everywhere", "from": ["valid"], "broadcast": {}},
            {"name": "out", "from": ["counts"], "to": "attributed"},
            {"name": "keep", "from": ["valid"], "toTable": "last-click"},
        ],
        "planning": {"intermediatePartitions": 16, "maxIntermediatePartitions": 64},
        "grouping": "ByPartition",
        "expansion": {"enabled": False, "parent": "partition / 2", "grace": "5m"},
        "runtime": {
            "image": "example.org/holdfast:1",
            "serviceAccountName": "ads",
            "code": {"ads": "x = 1\n"},
            "trigger": {"interval": "2s", "maxRecordsPerPartition": 100},
            "checkpoint": {
                "location": "file:///shared/apps",
                "claim": "shared",
                "retention": "24h",
                "changelog": {"system": "events", "partitions": 8},
            },
            "lineage": {"url": "https://lineage:5000", "namespace": "prod", "secretName": "lineage-auth"},
            "driver": {
                "cores": 2,
                "memory": "2g",
                "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "3Gi"}},
                "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"key": "streams", "value": "yes", "effect": "NoSchedule"}],
                "env": [{"name": "LOG_LEVEL", "value": "debug"}],
                "podTemplate": {"spec": {"priorityClassName": "high"}},
            },
            "executors": {
                "count": 3,
                "cores": 2,
                "memory": "4g",
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
                "nodeSelector": {"topology.kubernetes.io/zone": "a"},
                "tolerations": [{"operator": "Exists"}],
                "env": [{"name": "API", "valueFrom": {"secretKeyRef": {"name": "api", "key": "key"}}}],
                "podTemplate": {"metadata": {"labels": {"a": "b"}}},
            },
            "sparkConf": {"spark.ui.enabled": "false"},
            "replan": 3,
        },
        "state": {"location": "Claim", "storageClass": "local", "size": "20Gi", "onCompletion": "Keep"},
        "restart": {"policy": "OnFailure", "backoff": {"initial": "1s", "max": "1m"}, "resetAfter": "1m"},
        "alerts": {"maxLag": "5m", "deadLetters": 10},
        "onPartitionGrowth": "Halt",
        "suspend": True,
    },
}
"""Uses every field, and no default: an absent field is then a change."""

SMALL: dict[str, Any] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "small"},
    "spec": {
        "systems": [{"name": "files", "log": {}}],
        "streams": [{"name": "in", "system": "files"}],
        "steps": [{"name": "all", "from": ["in"], "filter": "true"}],
    },
}
"""Only what must be there."""

Path = tuple[str | int, ...]


def resolve(tree: Any, dotted: str) -> Path:
    """The path of a dotted one, in which items of named lists stand by name: `spec.steps.matched.join`."""
    path: list[str | int] = []
    for part in dotted.split("."):
        index = [item["name"] for item in tree].index(part) if isinstance(tree, list) else part
        path.append(index)
        tree = tree.get(part) if isinstance(tree, dict) else tree[index]
    return tuple(path)


def copied(tree: Any) -> Any:
    """A copy of plain values: thousands are made, and `deepcopy` takes four times as long."""
    return pickle.loads(pickle.dumps(tree))  # noqa: S301 - made in this line


def put(dotted: str, value: object, base: dict[str, Any] = BASE) -> dict[str, Any]:
    """A copy of a tree with another value there."""
    tree: dict[str, Any] = copied(base)
    *way, last = resolve(tree, dotted)
    _at(tree, way)[last] = copied(value)
    return tree


def drop(dotted: str, base: dict[str, Any] = BASE) -> dict[str, Any]:
    """A copy of a tree without that field or item."""
    tree: dict[str, Any] = copied(base)
    *way, last = resolve(tree, dotted)
    del _at(tree, way)[last]
    return tree


def add(dotted: str, *items: object, base: dict[str, Any] = BASE) -> dict[str, Any]:
    """A copy of a tree with more items in that list."""
    return put(dotted, [*_at(base, resolve(base, dotted)), *items], base)


def _at(tree: Any, path: Sequence[str | int]) -> Any:
    for part in path:
        tree = tree[part]
    return tree
