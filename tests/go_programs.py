"""Why: programs written in Go that tests need, compiled from their own modules, once per version of their sources.

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

_LIMIT = 2400


@dataclass(frozen=True, slots=True)
class Program:
    """A command of a Go module."""

    name: str
    module: Path
    package: str
    flags: str = "-s -w"
    """For the linker."""


def built(program: Program) -> Path:
    """The program, compiled if it is not there yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "holdfast"
    folder = cache / f"{program.name}-{_fingerprint(program)}"
    there = folder / program.name
    if there.exists():
        return there
    go = shutil.which("go")
    if go is None:
        message = f"{program.name} is compiled from its sources for tests: install Go 1.24 or later"
        raise RuntimeError(message)
    print(f"compiling {program.name}, once (minutes)", file=sys.stderr)  # noqa: T201
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=f"{program.name}-build-") as name:
        fresh = Path(name) / "built"
        flags = ["-trimpath", "-buildvcs=false", f"-ldflags={program.flags}", "-o", str(fresh / program.name)]
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
        command = [go, "build", *flags, program.package]
        subprocess.run(command, cwd=program.module, env=environment, check=True, timeout=_LIMIT)
        try:
            fresh.rename(folder)
        except OSError:
            # Another run was faster; its folder is whole, because it came by a rename too.
            if not there.exists():
                raise
    return there


def _fingerprint(program: Program) -> str:
    digest = hashlib.sha256(program.flags.encode())
    for source in sorted([*program.module.glob("*.go"), program.module / "go.mod", program.module / "go.sum"]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
