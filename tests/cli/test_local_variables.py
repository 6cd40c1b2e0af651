"""What variables of the spec are for a run on this host."""

import os
from typing import Any

import pytest

from holdfast.spec.runtime import Runtime
from holdfast_cli.run.variables import local_variables, variables_set

FROM_SECRET = {"name": "HF_KEY", "valueFrom": {"secretKeyRef": {"name": "api", "key": "key"}}}


def runtime(driver: list[Any], executors: list[Any]) -> Runtime:
    return Runtime.model_validate({"driver": {"env": driver}, "executors": {"env": executors}})


def test_literal_values_of_both_parts_are_set_executors_before_driver() -> None:
    of_two_parts = runtime([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], [{"name": "A", "value": "3"}])
    assert local_variables(of_two_parts, {}) == {"A": "3", "B": "2"}


def test_the_shell_has_the_last_word() -> None:
    assert local_variables(runtime([], [{"name": "A", "value": "1"}, {"name": "B"}]), {"A": "x"}) == {"B": ""}


def test_what_a_cluster_gives_is_left_to_the_shell() -> None:
    assert local_variables(runtime([FROM_SECRET], [FROM_SECRET]), {}) == {}


@pytest.mark.parametrize(
    ("value", "becomes"),
    [
        ("$(HF_KEY)@$(HF_HOST):1", "k@example:1"),
        ("$(HF_LATER) $(HF_KEY", "$(HF_LATER) $(HF_KEY"),
        ("$$(HF_KEY) $$$(HF_KEY) $HF_KEY $", "$(HF_KEY) $k $HF_KEY $"),
    ],
)
def test_references_are_replaced_as_in_a_container(value: str, becomes: str) -> None:
    host, url, later = {"name": "HF_HOST", "value": "x"}, {"name": "HF_URL", "value": value}, {"name": "HF_LATER"}
    shell = {"HF_KEY": "k", "HF_HOST": "example"}
    assert local_variables(runtime([FROM_SECRET, host, url, later], []), shell)["HF_URL"] == becomes


def test_variables_are_there_for_a_run_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_A", raising=False)
    monkeypatch.setenv("HF_B", "shell")
    with variables_set(runtime([], [{"name": "HF_A", "value": "1"}, {"name": "HF_B", "value": "2"}])):
        assert (os.environ["HF_A"], os.environ["HF_B"]) == ("1", "shell")
    assert "HF_A" not in os.environ
    assert os.environ["HF_B"] == "shell"
