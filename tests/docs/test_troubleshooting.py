"""The page about troubleshooting has each reason once, in the order of the list, with what to do, and nothing else."""

import re

import pytest

from holdfast.reasons import Reason
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
TEXT = PAGE.read_text(encoding="utf-8")
ENTRY = re.compile(r"^### (\S+)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
ENTRIES = dict(ENTRY.findall(TEXT))


def test_the_headings_are_the_reasons_in_the_lists_order() -> None:
    assert re.findall(r"^### (.*)$", TEXT, re.MULTILINE) == [reason.value for reason in Reason]


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_has_its_sentence_a_place_and_a_cure(reason: Reason) -> None:
    text = ENTRIES[reason.value]
    assert " ".join(text.split("- **", 1)[0].split()) == reason.sentence
    for part in ("- **Look:** ", "- **Do:** "):
        assert text.count(part) == 1
