"""Prometheus's parser and engine, compiled from its module, for rules and queries. Must not know what they are about.

Not promtool: it links what finds targets in every cloud, and compiles for many minutes.
"""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.go_programs import Program, built
from tests.waiting import patience

PROMRULES = Program("promrules", Path(__file__).with_name("promrules"), ".")
_LIMIT = patience(60)


@dataclass(frozen=True)
class Verdict:
    """What Prometheus says."""

    errors: list[str]
    metrics: dict[str, list[str]]
    """Query or alert -> the metrics that it asks for."""
    firing: dict[str, list[dict[str, Any]]]
    """Minute -> alerts with their labels."""
    answers: dict[str, dict[str, list[dict[str, Any]]]]
    """Query -> minute -> series, each with labels and value; without values that are no numbers."""

    def alerts(self, minute: int) -> set[tuple[str, str]]:
        """Return the alerts that fire in this minute, each with its app."""
        return {(alert["name"], alert["labels"].get("app", "")) for alert in self.firing[str(minute)]}

    def values(self, query: str, minute: int) -> list[float]:
        """Return what a query finds in this minute."""
        return [series["value"] for series in self.answers[query][str(minute)]]


def judged(rules: str, *, queries: Sequence[str] = (), series: str = "", minutes: Sequence[int] = ()) -> Verdict:
    """Return the verdict on rules and queries; over series of a sample a minute, what fires and what queries find."""
    task = {"rules": rules, "queries": list(queries), "series": series, "minutes": list(minutes)}
    done = subprocess.run(
        [built(PROMRULES)], input=json.dumps(task), capture_output=True, text=True, timeout=_LIMIT, check=False
    )
    assert done.returncode == 0, done.stderr
    return Verdict(**json.loads(done.stdout))
