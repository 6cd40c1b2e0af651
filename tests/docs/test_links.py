"""Every relative link leads somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, all_pages

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
GENERATED = (ROOT / "docs" / "reference", ROOT / "docs" / "images")
"""`make generate` writes these folders; links into them are followed wherever it has."""


def pages() -> list[Path]:
    at_the_root = (ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))
    return [*all_pages(), *sorted((ROOT / "examples").rglob("*.md")), *at_the_root]


def broken_links(page: Path) -> Iterator[str]:
    text = CODE.sub("", FENCED.sub("", page.read_text(encoding="utf-8")))
    for link in LINK.findall(text):
        path, _, anchor = link.partition("#")
        if ":" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        if any(target.is_relative_to(folder) and not folder.exists() for folder in GENERATED):
            continue
        if not target.exists():
            yield f"{link}: there is no {path}"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{link}: {path or page.name} has no heading #{anchor}"


def anchors(page: Path) -> set[str]:
    """Headings as GitHub makes anchors of them."""
    headings = HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages()])
def test_relative_links_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages()])
def test_no_merge_is_left_unfinished(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith(("<<<<<<< ", ">>>>>>> "))] == []
