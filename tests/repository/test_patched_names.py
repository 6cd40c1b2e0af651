"""What tests replace by its name is there: tests of the real tier would say so an hour later."""

import pkgutil
import re

import pytest

from tests.docs.pages import ROOT

PATCHED = sorted(
    {
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r'(?:setattr|patch)\(\s*"(holdfast[\w.]+)"', path.read_text(encoding="utf-8"))
    }
)


@pytest.mark.parametrize("name", PATCHED)
def test_what_is_patched_by_name_is_there(name: str) -> None:
    assert pkgutil.resolve_name(name) is not None
