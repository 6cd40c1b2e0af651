"""Each reason is explained once, in the order of the list, with what to do; the page has this text and nothing else."""

import re

import pytest

from holdfast.reasons import Reason, reasons_text
from holdfast_cli.generated import reasons_page
from tests.docs.pages import ROOT

TEXT = reasons_text()
ENTRY = re.compile(r"^### (\S+)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
ENTRIES = dict(ENTRY.findall(TEXT))


def test_the_headings_are_the_reasons_in_the_lists_order() -> None:
    assert re.findall(r"^### (.*)$", TEXT, re.MULTILINE) == [reason.value for reason in Reason]


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_has_its_sentence_a_place_and_a_cure(reason: Reason) -> None:
    text = ENTRIES[reason.value]
    for part in ("\n- **Look:** ", "\n- **Do:** "):
        assert text.count(part) == 1
    explanation = reason.explanation
    assert re.fullmatch(r"[A-Z][^\n*]*[.?]", explanation.meaning), "one sentence, as conditions show it"
    parts = {"Where": explanation.where, "Look": explanation.look, "Do": explanation.do}
    lines = [explanation.meaning, *(f"- **{title}:** {part}" for title, part in parts.items() if part)]
    assert text.split() == " ".join(lines).split(), "nothing of the page is kept from `holdfast explain`"


def test_the_page_is_this_text() -> None:
    assert (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8") == reasons_page()
    assert reasons_page().endswith(TEXT)
