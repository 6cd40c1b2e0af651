"""The tool that rewrites the pages finds nothing to do where they are true, and mends what is not."""

from pathlib import Path

import pytest

from tests.docs import pages, update

PAGE = """# A page

```console
$ holdfast plan missing.yaml
anything
```

Behind it.

```console
$ holdfast plan examples/ad-clicks/app.yaml > plan.txt
```
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    return path


def test_update_writes_the_output_and_the_exit_code(page: Path) -> None:
    assert update.update(page)
    lines = page.read_text(encoding="utf-8").splitlines()
    assert lines[3] == "$ holdfast plan missing.yaml"
    assert lines[4].startswith("holdfast: missing.yaml can't be read")
    assert lines[5] == "[exit 2]"
    assert "anything" not in lines
    assert lines[-1] == "```"


def test_update_leaves_a_true_page_alone(page: Path) -> None:
    update.update(page)
    assert not update.update(page)
