"""The locked lines of the packages that an image's extras need, and of no others: `locked.py EXTRA...` prints them.

The lock says of each package which others asked for it ("via"); pyproject.toml says what each extra asks for. A word
that is no extra is the name of a package. Runs in builds too, on nothing but Python: must not import anything else.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_ENTRY = re.compile(r"^[A-Za-z0-9._-]+==")
_VIA = re.compile(r"^ +# +(?:via +)?(\S+)( .*)?$")
_REQUIRED = re.compile(r"^([A-Za-z0-9._-]+)")


@dataclass(frozen=True)
class Entry:
    """One version of a package: its lines, hashes and all, and who asked for it."""

    name: str
    lines: tuple[str, ...]
    via: frozenset[str]


def entries(lock: str) -> list[Entry]:
    """All of a lock, in its order."""
    blocks: list[list[str]] = []
    for line in lock.splitlines():
        if _ENTRY.match(line):
            blocks.append([])
        if blocks:
            blocks[-1].append(line)
    return [_entry(block[0].partition("==")[0], block) for block in blocks]


def needed(lock: str, names: Iterable[str]) -> list[Entry]:
    """Those packages, and whatever they need in turn."""
    every, required = entries(lock), {plain(name) for name in names}
    if missing := required - {one.name for one in every}:
        message = f"requirements.lock lacks {', '.join(sorted(missing))}: `make lock` resolves it anew"
        raise ValueError(message)
    while more := {one.name for one in every if one.via & required} - required:
        required |= more
    return [one for one in every if one.name in required]


def asked(project: Mapping[str, object], words: Iterable[str]) -> list[str]:
    """What pyproject.toml asks for itself and for each of these extras; names of packages stay as they are."""
    table = project["project"]
    if not isinstance(table, dict):
        raise TypeError(table)
    extras: dict[str, list[str]] = table["optional-dependencies"]
    requirements: list[str] = []
    for word in words:
        requirements += [*table["dependencies"], *extras[word]] if word in extras else [word]
    return [found[1] for one in requirements if (found := _REQUIRED.match(one))]


def plain(name: str) -> str:
    """A package's name in its one spelling."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _entry(name: str, block: list[str]) -> Entry:
    lines = tuple(line for line in block if not line.lstrip().startswith("#"))
    via = frozenset(plain(match[1]) for line in block if (match := _VIA.match(line)) and match[1] != "via")
    return Entry(plain(name), lines, via)


def main(words: list[str], directory: Path = Path()) -> None:
    """Print the lines."""
    project = tomllib.loads((directory / "pyproject.toml").read_text())
    lock = (directory / "requirements.lock").read_text()
    for package in needed(lock, asked(project, words)):
        print("\n".join(package.lines))  # noqa: T201 - what it is for


if __name__ == "__main__":
    main(sys.argv[1:])
