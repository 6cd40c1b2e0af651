"""What a process makes for itself: one of each, and none of its parent's."""

import os

import pytest

from holdfast_runtime.per_process import PerProcess


def test_a_process_makes_its_own_and_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    abandoned = list[list[str]]()
    values = PerProcess[str, list[str]](lambda key: [key], abandoned.append)
    of_parent = values.of("a")
    assert values.of("a") is of_parent
    assert values.of("b") == ["b"]
    monkeypatch.setattr(os, "getpid", lambda: -1)
    of_child = values.of("a")
    assert of_child is not of_parent
    assert values.of("a") is of_child
    assert abandoned == [of_parent, ["b"]]
