"""The pipelines of `examples/pipelines`, and the commands that their page gives with what they print.

Must not run anything.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import ROOT, Block, blocks_of

FOLDER = ROOT / "examples" / "pipelines"
PAGE = FOLDER / "README.md"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/app.yaml"))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline as the page shows it."""

    name: str
    fragment: str
    """The part of its file that the page shows."""
    commands: tuple[tuple[str, ...], ...]
    """The words of each, without `holdfast`."""
    printed: str
    """What the last one prints."""

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return FOLDER / self.name

    @property
    def text(self) -> str:
        """Its app."""
        return (self.folder / "app.yaml").read_text(encoding="utf-8")

    def on(self, system: str) -> str:
        """Its app with this in place of its system."""
        lines = self.text.splitlines(keepends=True)
        (at,) = (number for number, line in enumerate(lines) if line.startswith("    kafka: "))
        lines[at] = f"    {system}\n"
        return "".join(lines)


def pipelines() -> Iterator[Pipeline]:
    """Yield the pipelines in the order of the page."""
    page = PAGE.read_text(encoding="utf-8").splitlines()
    shown = [block for block in blocks_of(PAGE) if block.language in ("yaml", "sh", "text")]
    for fragment, commands, printed in zip(shown[::3], shown[1::3], shown[2::3], strict=True):
        yield Pipeline(_name(page, fragment), fragment.text, tuple(_words(commands)), printed.text)


def _name(page: list[str], fragment: Block) -> str:
    """The pipeline whose app is linked above a block."""
    *_, name = re.findall(r"\]\((\w+)/app\.yaml\)", "\n".join(page[: fragment.line]))
    return str(name)


def _words(commands: Block) -> Iterator[tuple[str, ...]]:
    for line in commands.text.splitlines():
        program, *words = shlex.split(line)
        assert program == "holdfast", commands.where
        yield tuple(words)
