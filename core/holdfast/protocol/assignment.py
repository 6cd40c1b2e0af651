"""Assignments of tasks to processors, and the versions of them that drivers are given, as the file `assignment.json`.

Versions only rise within a run; a driver applies the newest one for its attempt. Must not compute an assignment:
`holdfast.placement.assignment` does.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.attempt_number import checked_attempt
from holdfast.bounded_json import load
from holdfast.errors import UserActionError


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which processor runs which tasks."""

    tasks_of: Mapping[str, tuple[str, ...]]
    """Processor -> its tasks, both in the order of names; a processor without tasks is there too."""

    def processor_of(self) -> dict[str, str]:
        """Return task -> processor."""
        return {task: processor for processor, tasks in self.tasks_of.items() for task in tasks}


ASSIGNMENT_KEY = "assignment.json"
"""The key in the ConfigMap."""
_MOST_SHOWN = 200


class AssignmentInvalidError(UserActionError):
    """A text that is not a valid assignment."""


@dataclass(frozen=True, slots=True)
class VersionedAssignment:
    """One version of an assignment."""

    version: int
    attempt: int
    """The attempt that may apply it."""
    processors: Mapping[str, str]
    """Executor pod -> location."""
    assignment: Assignment

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps(
            {
                "version": self.version,
                "attempt": self.attempt,
                "processors": dict(self.processors),
                "assignment": {name: list(tasks) for name, tasks in self.assignment.tasks_of.items()},
            },
            sort_keys=True,
        )


def read_assignment(text: str) -> VersionedAssignment:
    """Return the assignment in this JSON text; raise `AssignmentInvalidError`."""
    try:
        tree: Any = load(text)
        tasks_of = {str(name): tuple(map(str, tasks)) for name, tasks in tree["assignment"].items()}
        processors = {str(name): str(location) for name, location in tree["processors"].items()}
        version, attempt = checked_attempt(int(tree["version"])), checked_attempt(int(tree["attempt"]))
        handed = VersionedAssignment(version, attempt, processors, Assignment(tasks_of))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        why = f"{type(error).__name__}: {error}"[:_MOST_SHOWN]
        message = f"{ASSIGNMENT_KEY} is no assignment: {why}; delete its ConfigMap, it is created again"
        raise AssignmentInvalidError(message) from error
    if handed.assignment.tasks_of.keys() != handed.processors.keys():
        message = (
            f"{ASSIGNMENT_KEY} does not give a location for each processor; delete its ConfigMap, it is created again"
        )
        raise AssignmentInvalidError(message)
    return handed
