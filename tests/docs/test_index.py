"""The index of the documentation has every page once, for users or for contributors."""

import re

from tests.docs.pages import ROOT

DOCS = ROOT / "docs"
ELSEWHERE = {"decisions", "verbs"}
"""Folders that the index names as a whole."""


def test_every_page_is_in_one_part_of_the_index() -> None:
    users, contributors = (DOCS / "README.md").read_text(encoding="utf-8").split("## For contributors\n")
    shown, named = (
        [*re.findall(r"\]\(([^)#]+\.md)\)", part)] for part in (users, contributors.split("`make setup`")[0])
    )
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.parent.name not in ELSEWHERE}
    listed = [page for page in [*shown, *named] if not page.startswith("../") and page != "verbs/README.md"]
    assert sorted(listed) == sorted(pages - {"README.md"})
