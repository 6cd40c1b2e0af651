"""No page or example shows as working what a run refuses."""

import re
from pathlib import Path

import pytest

from holdfast.planning.run_checks import BUILT_VERBS
from holdfast.spec.steps import VERBS
from tests.docs import notices
from tests.docs.notices import noted_files, with_notice
from tests.docs.pages import ROOT

REFUSED = sorted(set(VERBS) - set(BUILT_VERBS))


def verbs_in(text: str) -> list[str]:
    """The verbs in backquotes."""
    return sorted({word for word in re.findall(r"`(\w+)`", text) if word in VERBS})


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in noted_files()])
def test_the_line_about_what_is_not_run_is_there_and_true(path: Path) -> None:
    # Not so any more? `python -m tests.docs.update` writes what is.
    assert path.read_text(encoding="utf-8") == with_notice(path)


def test_a_page_whose_apps_are_refused_gets_the_line_and_loses_it_when_they_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    table = "{name: users, sources: [changes], key: [id]}"
    text = f"# A page\n\nIt counts.\n\n```yaml\ntables:\n- {table}\n```\n"
    page.write_text(text, encoding="utf-8")
    noted = with_notice(page)
    assert noted.splitlines()[2].startswith("> **Not run by this release:** apps with tables with sources.")
    page.write_text(noted, encoding="utf-8")
    assert with_notice(page) == noted
    monkeypatch.setattr(notices, "not_built", lambda _: ())
    assert with_notice(page) == text


def test_the_page_of_limits_says_which_verbs_run_and_which_do_not() -> None:
    (row,) = re.findall(r"^\| verbs .*$", (ROOT / "docs" / "limits.md").read_text(encoding="utf-8"), re.MULTILINE)
    refused, _, run = row.partition("What runs:")
    assert verbs_in(refused) == REFUSED
    assert verbs_in(run) == sorted(BUILT_VERBS)
