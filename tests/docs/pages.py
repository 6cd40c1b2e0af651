"""A page of the documentation as blocks, so that what stands in it can be run.

A fence says its language (none: text), and for a file to be written its name: ```yaml title="app.yaml". The word
`invalid` behind it says that the file is meant to break its schema. Must not run anything.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_OPEN = re.compile(r"^```(?P<language>[a-z]*)(?P<info>.*)$")
_CLOSE = "```"
_TITLE = re.compile(r'title="(?P<title>[^"]+)"')


class PageError(Exception):
    """A page that can't be read as blocks."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    """Of its opening fence, counted from 1."""
    language: str
    title: str | None
    words: frozenset[str]
    text: str

    @property
    def where(self) -> str:
        """`docs/verbs/join.md:12`."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_app(self) -> bool:
        """Whether it is a whole StreamApp."""
        return self.language == "yaml" and "kind: StreamApp" in self.text


def all_pages() -> tuple[Path, ...]:
    """Every page whose blocks are run."""
    elsewhere = (
        ROOT / name
        for name in ("README.md", "bench/README.md", "bench/nexmark/README.md", "tests/README.md", "tests/pains.md")
    )
    return (*sorted((ROOT / "docs").rglob("*.md")), *elsewhere)


def blocks_of(page: Path) -> tuple[Block, ...]:
    """The blocks of a page, in order."""
    return tuple(_blocks(page, page.read_text(encoding="utf-8").splitlines()))


def _blocks(page: Path, lines: list[str]) -> Iterator[Block]:
    numbered = iter(enumerate(lines, start=1))
    for number, line in numbered:
        if not line.lstrip().startswith(_CLOSE):
            continue
        match = _OPEN.match(line)
        if match is None:
            message = f"{page}:{number}: a fence starts its line"
            raise PageError(message)
        inside: list[str] = []
        for _, text in numbered:
            if text == _CLOSE:
                break
            inside.append(text)
        else:
            message = f"{page}:{number}: the fence is never closed"
            raise PageError(message)
        title = _TITLE.search(match["info"])
        words = frozenset(_TITLE.sub("", match["info"]).split())
        yield Block(
            page, number, match["language"] or "text", title["title"] if title else None, words, "\n".join(inside)
        )
