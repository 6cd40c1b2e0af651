"""The tables notation: by its kind, a case asks what becomes of a store, where reading starts, or what is loaded."""

from collections.abc import Callable
from typing import Any

from holdfast.tables.recovery import (
    LocalStore,
    SourceBounds,
    SourceStart,
    TableFacts,
    TableLoading,
    recover,
    starting_offset,
)
from holdfast.tasks.partitions import parse_partition

START = {SourceStart.OLDEST: "oldest", SourceStart.STORED: "lastOffset", SourceStart.RUN: "lastOffset"}


def run_tables_case(case: dict[str, Any]) -> None:
    KINDS[case["kind"]](case)


def recovery(case: dict[str, Any]) -> None:
    local = LocalStore(case["localStore"])
    # The notation asks about a later attempt that has no durable copy.
    decision = recover(TableFacts(case["bootstrap"], case["persistent"], local, copy_usable=False, read_before=True))
    assert case["expect"] == {
        "store": decision.store.value,
        "start": START[decision.start],
        "mainInputsWait": decision.main_inputs_wait,
    }


def starting(case: dict[str, Any]) -> None:
    assert starting_offset(case["storedOffset"], case["oldest"]).offset == case["expect"]


def loaded(case: dict[str, Any]) -> None:
    bounds = {parse_partition(name): SourceBounds(**bound) for name, bound in case["partitions"].items()}
    loading = TableLoading.noted(bounds)
    for step in case["steps"]:
        loading = loading.reached({parse_partition(name): at for name, at in step.get("position", {}).items()})
        assert loading.loaded == step["loaded"], step


KINDS: dict[str, Callable[[dict[str, Any]], None]] = {
    "recovery": recovery,
    "startingOffset": starting,
    "loaded": loaded,
}
