"""Every verb has a page that shows it and shows what is refused."""

import re
from pathlib import Path

import pytest

from holdfast.spec.parse import parse_app
from holdfast.spec.verbs import VERBS
from holdfast_cli.plan.app_file import app_document
from tests.docs.pages import ROOT, blocks_of

FOLDER = ROOT / "docs" / "verbs"
SECTIONS = ("## Smallest app", "## What comes out", "## What is refused", "## What a change costs", "## Edges")


def page_of(verb: str) -> Path:
    return FOLDER / f"{verb}.md"


def test_every_verb_has_a_page_and_every_page_a_verb() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == {*VERBS, "README"}


def test_the_table_of_verbs_has_every_verb_once() -> None:
    rows = re.findall(
        r"^\| \[([A-Za-z]+)\]\(\1\.md\) \|", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(rows) == sorted(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_a_page_has_the_sections_of_all_pages(verb: str) -> None:
    headings = re.findall(r"^## .*$", page_of(verb).read_text(encoding="utf-8"), re.MULTILINE)
    assert tuple(headings) == SECTIONS


@pytest.mark.parametrize("verb", VERBS)
def test_a_page_starts_with_an_app_that_uses_its_verb(verb: str) -> None:
    first = next(block for block in blocks_of(page_of(verb)) if block.is_app)
    app = parse_app(app_document(first.text, first.where).tree)
    assert verb in {step.verb for step in app.spec.steps}


@pytest.mark.parametrize("verb", VERBS)
def test_a_page_shows_what_comes_out_and_what_is_refused(verb: str) -> None:
    consoles = [block.text for block in blocks_of(page_of(verb)) if block.language == "console"]
    assert "--wide" in consoles[0]
    assert "[exit 1]" not in consoles[0]
    assert any("[exit 1]" in text for text in consoles[1:])
