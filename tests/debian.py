"""Programs of Debian's packages that tests start: found, or installed where root may do so.

`python -m tests.debian` installs what is missing of them.
"""

import os
import shutil
import subprocess
import sys

_PROGRAMS = {
    "chromium-headless-shell": ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"),
    "fish": ("fish",),
    "zsh": ("zsh",),
}
"""Package -> the programs of which one will do."""


def ensure_program(package: str) -> str:
    """Return the path of the package's program, or of one that will do as well."""
    programs = _PROGRAMS[package]
    path = next(filter(None, map(shutil.which, programs)), None)
    if path is not None:
        return path
    install = f"apt-get install -y --no-install-recommends {package}"
    if os.geteuid() or shutil.which("apt-get") is None:
        message = f"no {' or '.join(programs)} here; as root: {install}"
        raise RuntimeError(message)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in ("apt-get update", install):
        subprocess.run(command.split(), check=True, env=quiet, stdout=sys.stderr)
    return ensure_program(package)


if __name__ == "__main__":
    for name in _PROGRAMS:
        print(ensure_program(name))  # noqa: T201
