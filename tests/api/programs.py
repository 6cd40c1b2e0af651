"""Why: a real API server and its etcd for tests, compiled from their own Go modules, once per version.

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

_HERE = Path(__file__).parent
_LIMIT = 2400
_KUBERNETES = "v1.34.4"
_STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True, slots=True)
class Program:
    """A command of a Go module."""

    name: str
    module: Path
    package: str
    flags: str = "-s -w"


def _stamps() -> str:
    """Without a version of its own, an API server takes itself for one so old that it has no features."""
    _, minor, _ = _KUBERNETES.split(".")
    said = {"gitVersion": _KUBERNETES, "gitMajor": "1", "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(f"-X {package}.{name}={value}" for package in _STAMPED for name, value in said.items())


ETCD = Program("etcd", _HERE / "etcd", "go.etcd.io/etcd/server/v3")
API_SERVER = Program("kube-apiserver", _HERE / "k8s", "k8s.io/kubernetes/cmd/kube-apiserver", f"-s -w {_stamps()}")
KUBECTL = Program("kubectl", _HERE / "k8s", "k8s.io/kubernetes/cmd/kubectl", f"-s -w {_stamps()}")


def built(program: Program) -> Path:
    """The program, compiled if it is not there yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "holdfast"
    folder = cache / f"{program.name}-{_fingerprint(program)}"
    there = folder / program.name
    if there.exists():
        return there
    go = shutil.which("go")
    if go is None:
        message = "the operator is tested with a real API server: install Go 1.24 or later"
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
    for name in ("go.mod", "go.sum"):
        digest.update((program.module / name).read_bytes())
    return digest.hexdigest()[:16]
