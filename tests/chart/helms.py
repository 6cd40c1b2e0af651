"""Both Helms that people have, compiled from their modules, and run where nothing of the machine's user is seen.

Must not know the chart.
"""

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.go_programs import Program, built
from tests.waiting import patience

_HERE = Path(__file__).parent


def _program(major: int, **stamps: str) -> Program:
    module = f"helm.sh/helm/v{major}"
    flags = " ".join(f"-X {module}/{name}={value}" for name, value in stamps.items())
    return Program(f"helm{major}", _HERE / f"helm{major}", f"{module}/cmd/helm", f"-s -w {flags}")


# As its own Makefile does: without these Helm 3 renders for Kubernetes 1.20. Helm 4 finds out by itself.
_FOR_KUBERNETES = {
    f"pkg/{package}.k8sVersion{part}": value
    for package in ("chartutil", "lint/rules")
    for part, value in (("Major", "1"), ("Minor", "34"))
}
HELMS = {
    3: _program(3, **{"internal/version.version": "v3.19.0"}, **_FOR_KUBERNETES),
    4: _program(4, **{"internal/version.version": "v4.3.1"}),
}
_LIMIT = patience(180)


class HelmError(Exception):
    """Helm said no."""


@dataclass(frozen=True)
class Helm:
    """One Helm, as one user of one cluster; without a kubeconfig it can only render."""

    major: int
    home: Path
    kubeconfig: Path | None = None
    namespace: str = "default"
    program: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "program", built(HELMS[self.major]))

    def __call__(self, *arguments: str) -> str:
        """What it printed; `HelmError` with all it said where it failed."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "HELM_NAMESPACE": self.namespace,
            "KUBECONFIG": str(self.kubeconfig or self.home / "none"),
        }
        command = [str(self.program), *arguments]
        done = subprocess.run(
            command, env=environment, cwd=self.home, capture_output=True, text=True, timeout=_LIMIT, check=False
        )
        if done.returncode:
            message = f"helm{self.major} {' '.join(arguments)}: {done.stdout}{done.stderr}"
            raise HelmError(message)
        return done.stdout
