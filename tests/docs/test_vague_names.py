"""The check of vague names finds what lives longer than a comprehension, wherever it is bound."""

from tests.vague_names import BUDGET, ROOT, vague


def test_bindings_of_functions_are_found_and_of_comprehensions_not() -> None:
    source = "def at(given, row):\n    found = [one for one in given]\n    for one in found:\n        place = one\n"
    assert [*vague(source)] == [(1, "given"), (2, "found"), (3, "one")]


def test_each_part_with_python_in_it_has_a_budget() -> None:
    assert [part for part in BUDGET if not [*(ROOT / part).rglob("*.py")]] == []
    parts = {
        path.relative_to(ROOT).parts[0] for path in ROOT.glob("*/*/**/*.py") if path.parts[len(ROOT.parts)][0] != "."
    }
    assert parts - BUDGET.keys() <= {"examples", "charts"}
