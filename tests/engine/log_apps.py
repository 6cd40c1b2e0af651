"""Apps on the embedded log, for tests of a step or two, and how such an app goes on after a crash."""

from collections.abc import Sequence
from typing import Any

from holdfast_runtime.testing import Crashed, TestDriver


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


def survived(driver: TestDriver) -> None:
    """Run to the end of the input; after a crash, restart first, with empty disks."""
    try:
        driver.run_until_idle()
    except Crashed:
        driver.restart()
        driver.lose_local_state()
        driver.run_until_idle()
