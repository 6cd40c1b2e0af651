"""The page about security makes claims with limits, each with tests that exist."""

import re

import pytest

from tests.docs.pages import ROOT
from tests.docs.proofs import check_proofs

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
CLAIMS = {
    int(claim[1]): claim[0] for claim in re.finditer(r"^### (\d+)\. .+?(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
}


def test_claims_are_numbered_in_order() -> None:
    assert list(CLAIMS) == list(range(1, len(CLAIMS) + 1))
    assert len(CLAIMS) > 10


@pytest.mark.parametrize("number", CLAIMS)
def test_each_claim_says_its_limits_and_names_existing_tests(number: int) -> None:
    text = CLAIMS[number]
    for part in ("**Not covered:**", "**Proof:**"):
        assert text.count(part) == 1
    check_proofs(text, ROOT / "docs")
