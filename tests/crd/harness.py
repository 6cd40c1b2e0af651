"""The verdict of a real API server on the CRD and on objects, for tests: it builds and runs `crdcheck` beside it.

The program is built once per version of its sources and kept in the user's cache. Must not judge anything in Python.
"""

import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.go_programs import Program, built

SOURCES = Path(__file__).parent
CRD = SOURCES.parents[1] / "crds" / "streamapps.holdfast.dev.yaml"
_CHECK = Program("crdcheck", SOURCES, ".")
_RUN_LIMIT = 1800


@dataclass(frozen=True, slots=True)
class Question:
    """An object to create, or to put in the place of an old one."""

    name: str
    tree: object
    old: object | None = None
    cost: bool = False
    """Whether to ask what the rules cost: they are evaluated twice then."""

    @property
    def line(self) -> str:
        """As `crdcheck` reads it."""
        old = {} if self.old is None else {"old": self.old}
        return json.dumps({"name": self.name, "object": self.tree, "cost": self.cost} | old)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server says."""

    valid: bool
    errors: tuple[str, ...]
    cost: int


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the API server says to a definition, and to objects by name."""

    definition: dict[str, Any]
    answers: dict[str, Answer]


def ask(questions: Iterable[Question], crd: Path = CRD) -> Verdicts:
    """Validate the definition, then each object."""
    lines = "".join(f"{question.line}\n" for question in questions)
    done = subprocess.run(
        [built(_CHECK), crd],
        input=lines,
        capture_output=True,
        text=True,
        check=False,
        timeout=_RUN_LIMIT,
        env={**os.environ, "GOGC": "400"},  # a third less CPU, and some memory
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    definition, *answers = map(json.loads, done.stdout.splitlines())
    return Verdicts(
        definition,
        {a["name"]: Answer(valid=a["valid"], errors=tuple(a["errors"]), cost=a["cost"]) for a in answers},
    )
