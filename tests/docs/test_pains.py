"""The page about pains tells all of them, and each test it names as a proof exists."""

import re

import pytest

from tests.docs.pages import ROOT
from tests.docs.proofs import check_proofs

PAGE = ROOT / "tests" / "pains.md"
PAIN = re.compile(r"^## (\d+)\. .+?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
PAINS = {int(found[1]): found[0] for found in PAIN.finditer(PAGE.read_text(encoding="utf-8"))}


def test_all_are_told_once_in_order() -> None:
    assert list(PAINS) == list(range(1, 26))


@pytest.mark.parametrize("number", PAINS)
def test_each_compares_there_and_here_and_names_existing_tests(number: int) -> None:
    text = PAINS[number]
    for part in ("**There:**", "**Here:**", "**Proof:**"):
        assert text.count(part) == 1
    assert "#" in text.split("**Here:**")[0].split("**There:**")[1] or "benchmark page" in text, "cite an issue"
    check_proofs(text, PAGE.parent)
