"""An app that keeps windows, sessions, a join, keys and a table, for tests that edit it in the middle of its data."""

from datetime import UTC, datetime
from typing import Any

APP: dict[str, Any] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "changed"},
    "spec": {
        "systems": [{"name": "here", "log": {}}],
        "streams": [
            {
                "name": "clicks",
                "system": "here",
                "partitions": 2,
                "key": ["ad"],
                "schema": "ad STRING, user STRING, n BIGINT, ts TIMESTAMP, sent TIMESTAMP",
                "eventTime": {"column": "ts"},
                "bounded": True,
            },
            {
                "name": "shows",
                "system": "here",
                "topic": "shown",
                "partitions": 2,
                "key": ["ad"],
                "schema": "ad STRING, ts TIMESTAMP",
                "eventTime": {"column": "ts"},
                "bounded": True,
            },
            {"name": "owners", "system": "here", "partitions": 2, "key": ["ad"], "schema": "ad STRING, owner STRING"},
            {"name": "windowed", "system": "here", "partitions": 2, "key": ["ad"]},
            {"name": "looked-up", "system": "here", "partitions": 2},
            {"name": "counted", "system": "here", "partitions": 4, "key": ["user"]},
        ],
        "tables": [{"name": "owner", "sources": ["owners"], "key": ["ad"], "select": ["ad", "owner"]}],
        "steps": [
            {
                "name": "windows",
                "from": ["clicks"],
                "aggregate": {"by": ["ad"], "window": "1m", "compute": ["min(n) AS least", "count(*) AS clicks"]},
            },
            {"name": "windows-out", "from": ["windows"], "to": "windowed"},
            {
                "name": "visits",
                "from": ["clicks"],
                "aggregate": {"by": ["ad"], "session": "5m", "compute": ["count(*) AS n"]},
            },
            {"name": "matched", "from": ["clicks", "shows"], "join": {"by": ["ad"], "within": "1m", "select": ["ad"]}},
            {"name": "first", "from": ["clicks"], "deduplicate": {"by": ["ad"]}},
            {"name": "named", "from": ["clicks"], "lookup": {"table": "owner", "by": ["ad"]}},
            {"name": "named-out", "from": ["named"], "to": "looked-up"},
            {"name": "by-user", "from": ["clicks"], "repartition": {"by": ["user"]}},
            {"name": "users", "from": ["by-user"], "aggregate": {"by": ["user"], "compute": ["count(*) AS n"]}},
            {"name": "users-out", "from": ["users"], "to": "counted"},
        ],
        "planning": {"intermediatePartitions": 4},
    },
}
AT = datetime(2026, 1, 1, tzinfo=UTC)
CLICK = {"ad": "a", "user": "u", "n": 5, "ts": AT, "sent": AT}
