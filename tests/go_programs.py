"""Programs written in Go that tests need, compiled from their own modules, once per version of their sources.

Kept in `~/.cache/holdfast`, which may be deleted at any time. Must not start anything.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.cached import cache, locked

_LIMIT = 2400


@dataclass(frozen=True, slots=True)
class Program:
    """A command of a Go module."""

    name: str
    module: Path
    package: str
    flags: str = "-s -w"
    """For the linker."""


def there(program: Program) -> Path | None:
    """The program, if it is compiled."""
    path = _folder(program) / program.name
    return path if path.exists() else None


def built(program: Program, log: IO[bytes] | None = None) -> Path:
    """The program, compiled if it is not there yet; what the compiler says is shown, or goes into the log."""
    ready = there(program)
    if ready is not None:
        return ready
    go = shutil.which("go")
    if go is None:
        message = f"{program.name} is compiled from its sources for tests: install Go 1.24 or later"
        raise RuntimeError(message)
    folder = _folder(program)
    with locked(folder.with_suffix(".lock")):
        if there(program) is None:
            if log is None:
                print(f"compiling {program.name}, once (minutes)", file=sys.stderr)  # noqa: T201
            _build(program, go, folder, log)
    return folder / program.name


def _build(program: Program, go: str, folder: Path, log: IO[bytes] | None) -> None:
    with tempfile.TemporaryDirectory(dir=cache(), prefix=f"{program.name}-build-") as name:
        fresh = Path(name) / "built"
        flags = ["-trimpath", "-buildvcs=false", f"-ldflags={program.flags}", "-o", str(fresh / program.name)]
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
        command = [go, "build", *flags, program.package]
        subprocess.run(command, cwd=program.module, env=environment, stderr=log, check=True, timeout=_LIMIT)
        fresh.rename(folder)


def _folder(program: Program) -> Path:
    return cache() / f"{program.name}-{fingerprint(program)}"


def fingerprint(program: Program) -> str:
    """Of all that it is made of, but the compiler."""
    digest = hashlib.sha256(program.flags.encode())
    for source in sorted([*program.module.glob("*.go"), *program.module.glob("go.*")]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
