"""Apps on the embedded log, for tests of a step or two."""

from collections.abc import Sequence
from typing import Any


def app_on_log(name: str, streams: Sequence[dict[str, Any]], steps: Sequence[dict[str, Any]], code: str) -> Any:
    """An app whose functions are in module `f`; streams have one partition and the key `k` where they say nothing."""
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": name},
        "spec": {
            "systems": [{"name": "here", "log": {}}],
            "streams": [{"system": "here", "partitions": 1, "key": ["k"]} | stream for stream in streams],
            "steps": list(steps),
            "runtime": {"code": {"f": code}},
        },
    }
