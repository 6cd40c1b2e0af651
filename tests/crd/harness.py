"""Why: the verdict of a real API server on the CRD and on objects, for tests: it builds and runs `crdcheck` beside it.

The program is built once per version of its sources and kept in the user's cache. Must not judge anything in Python.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent
CRD = SOURCES.parents[1] / "crds" / "streamapps.holdfast.dev.yaml"
_BUILD_LIMIT = 1800
_RUN_LIMIT = 300


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
    done = subprocess.run([binary(), crd], input=lines, capture_output=True, text=True, check=False, timeout=_RUN_LIMIT)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    definition, *answers = map(json.loads, done.stdout.splitlines())
    return Verdicts(
        definition,
        {a["name"]: Answer(valid=a["valid"], errors=tuple(a["errors"]), cost=a["cost"]) for a in answers},
    )


def binary() -> Path:
    """The program, built if its sources have changed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "holdfast"
    folder = cache / f"crdcheck-{_fingerprint()}"
    built = folder / "crdcheck"
    if built.exists():
        return built
    go = shutil.which("go")
    if go is None:
        message = "the CRD is tested with the API server's own code: install Go 1.24 or later"
        raise RuntimeError(message)
    print("building crdcheck from the API server's packages, once (1-2 minutes)", file=sys.stderr)  # noqa: T201
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="crdcheck-build-") as name:
        fresh = Path(name) / "built"
        command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(fresh / "crdcheck"), "."]
        subprocess.run(command, cwd=SOURCES, check=True, timeout=_BUILD_LIMIT)
        try:
            fresh.rename(folder)
        except OSError:
            # Another run was faster; its folder is whole, because it came by a rename too.
            if not built.exists():
                raise
    return built


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for source in sorted([*SOURCES.glob("*.go"), SOURCES / "go.mod", SOURCES / "go.sum"]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
