"""The page about pains tells all of them, and each test it names as a proof exists."""

import ast
import re
from functools import cache

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "pains.md"
PAIN = re.compile(r"^## (\d+)\. .+?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
PROOF = re.compile(r"^- \[`(?P<path>tests/[\w/]+\.py)::(?P<test>test_\w+)`\]\(\.\./(?P<target>\S+)\)$", re.MULTILINE)
PAINS = {int(found[1]): found[0] for found in PAIN.finditer(PAGE.read_text(encoding="utf-8"))}


@cache
def names_in(path: str) -> frozenset[str]:
    """What pytest would collect by name."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))


def test_all_are_told_once_in_order() -> None:
    assert list(PAINS) == list(range(1, 26))


@pytest.mark.parametrize("number", PAINS)
def test_each_says_what_happens_there_and_here_and_names_tests_that_exist(number: int) -> None:
    text = PAINS[number]
    for part in ("**There:**", "**Here:**", "**Proof:**"):
        assert text.count(part) == 1
    assert "#" in text.split("**Here:**")[0].split("**There:**")[1] or "benchmark page" in text, "cite an issue"
    proofs = list(PROOF.finditer(text))
    assert proofs
    assert len(proofs) == text.count("\n- "), "a line of proof is a link to a test"
    for proof in proofs:
        assert proof["target"] == proof["path"]
        assert proof["test"] in names_in(proof["path"]), f"{proof['path']} has no test {proof['test']}"
