"""Calls of Docker, whose newer clients want a builder that Debian does not have.

Must not know what the images are for.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.cluster.steps import ClusterError, Step

_QUESTION = 60.0
_REACH = 10.0
_CLASSIC = {"DOCKER_BUILDKIT": "0"}


def answers() -> bool:
    """Whether there is a daemon."""
    return _says("info", seconds=_QUESTION)


def has(image: str) -> bool:
    """Whether the daemon has the image."""
    return _says("image", "inspect", image, seconds=_QUESTION)


def reaches(image: str) -> bool:
    """Whether some registry has it, which is asked once, and not for long."""
    return _says("manifest", "inspect", image, seconds=_REACH)


def ask(*words: str, seconds: float = _QUESTION) -> str:
    """What the client answers."""
    try:
        done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False, timeout=seconds)  # noqa: S607
    except (OSError, subprocess.TimeoutExpired) as error:
        message = f"docker {words[0]}: {error}"
        raise ClusterError(message) from error
    if done.returncode:
        message = f"docker {' '.join(words)}: {done.stderr.strip()}"
        raise ClusterError(message)
    return done.stdout.strip()


def build(
    step: Step, dockerfile: Path, folder: Path, tag: str, arguments: Mapping[str, str], target: str | None = None
) -> None:
    """Build an image, or one stage of it."""
    # apt-get has to reach its mirror as this machine does.
    words = ["docker", "build", "--network", "host", "--tag", tag, "--file", str(dockerfile)]
    words += [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    words += ["--target", target] if target else []
    step.run(*words, folder, environment=_CLASSIC)


def _says(*words: str, seconds: float) -> bool:
    command = ["docker", *words]
    try:
        return not subprocess.run(command, capture_output=True, check=False, timeout=seconds).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False
