"""Each test of the loops runs twice: with the compiled ones, and with their twins in numpy."""

from collections.abc import Iterator

import pytest

from holdfast_runtime.columns.loops import loops


@pytest.fixture(params=["compiled", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Choose the compiled loops or their twins."""
    monkeypatch.setenv("HOLDFAST_PLAIN_LOOPS", "1" if request.param == "plain" else "0")
    loops.cache_clear()
    yield request.param
    monkeypatch.undo()
    loops.cache_clear()
