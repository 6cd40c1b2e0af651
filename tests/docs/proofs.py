"""The tests that pages name as proofs of what they claim, which must exist. Must not run them."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.docs.pages import ROOT

_PROOF = re.compile(r"^- \[`(?P<path>tests/[\w/]+\.py)::(?P<test>test_\w+)`\]\((?P<target>\S+)\)$", re.MULTILINE)


def check_proofs(text: str, folder: Path) -> None:
    """Each line of a list in this text is a link to a test that exists, and there is one at least.

    `folder`: of the page.
    """
    proofs = list(_PROOF.finditer(text))
    assert proofs
    assert len(proofs) == text.count("\n- "), "a line of proof is a link to a test"
    for proof in proofs:
        assert (folder / proof["target"]).resolve() == ROOT / proof["path"]
        assert proof["test"] in _names_in(proof["path"]), f"{proof['path']} has no test {proof['test']}"


@cache
def _names_in(path: str) -> frozenset[str]:
    """What pytest would collect by name."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
