"""Programs of Debian's packages that tests start: found, or installed where root may do so.

`python -m tests.debian` installs what is missing of them.
"""

import shutil

from tests.cluster.packages import install

_PROGRAMS = {
    "chromium-headless-shell": ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"),
    "fish": ("fish",),
    "zsh": ("zsh",),
}
"""Package -> the programs of which one will do."""


def ensure_program(package: str) -> str:
    """Return the path of the package's program, or of one that will do as well."""
    paths = filter(None, map(shutil.which, _PROGRAMS[package]))
    if (path := next(paths, None)) is not None:
        return path
    install([package])
    return ensure_program(package)


if __name__ == "__main__":
    for name in _PROGRAMS:
        print(ensure_program(name))  # noqa: T201
