"""The two logs of a run without a query of Spark's: what is planned and done, for the next attempt and for Spark."""

import json
import os
from pathlib import Path

import pytest

from holdfast.errors import RetrySoonError
from holdfast_runtime.checkpoint.offset_log import OffsetLogState, check_query, read_offset_log
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.checkpoint.query_log import QueryLog

FIRST, SECOND = Offsets(batch=1), Offsets(batch=2)


def begun(path: Path) -> QueryLog:
    log = QueryLog(path)
    log.begin()
    return log


def test_a_new_run_has_done_nothing(tmp_path: Path) -> None:
    assert QueryLog(tmp_path).begin() == OffsetLogState(Offsets())


def test_a_planned_batch_is_taken_up_by_the_next_attempt(tmp_path: Path) -> None:
    log = begun(tmp_path)
    log.plan(FIRST)
    assert QueryLog(tmp_path).begin() == OffsetLogState(Offsets(), FIRST)
    log.done()
    log.plan(SECOND)
    assert QueryLog(tmp_path).begin() == OffsetLogState(FIRST, SECOND)
    log.done()
    assert QueryLog(tmp_path).begin() == OffsetLogState(SECOND)


def test_a_replayed_batch_is_done_under_its_own_number(tmp_path: Path) -> None:
    begun(tmp_path).plan(FIRST)
    again = begun(tmp_path)
    again.done()
    again.plan(SECOND)
    assert read_offset_log(tmp_path) == OffsetLogState(FIRST, SECOND)


def test_no_batch_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = begun(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("a batch waits for the disk"))
    log.plan(FIRST)
    log.done()
    assert read_offset_log(tmp_path) == OffsetLogState(FIRST)


def test_a_driver_that_was_overtaken_plans_nothing(tmp_path: Path) -> None:
    older, newer = begun(tmp_path), begun(tmp_path)
    newer.plan(FIRST)
    with pytest.raises(RetrySoonError, match="another attempt of this app"):
        older.plan(FIRST)


def test_a_batch_that_another_attempt_has_done_is_told(tmp_path: Path) -> None:
    older = begun(tmp_path)
    older.plan(FIRST)
    begun(tmp_path).done()
    with pytest.raises(RetrySoonError, match="another attempt of this app"):
        older.done()


def test_entries_are_what_spark_would_read(tmp_path: Path) -> None:
    log = begun(tmp_path)
    for batch in range(1, 4):
        log.plan(Offsets(batch=batch))
        log.done()
    log.plan(Offsets(batch=4))
    check_query(tmp_path)


def test_a_hundred_entries_stay(tmp_path: Path) -> None:
    log = begun(tmp_path)
    for batch in range(1, 131):
        log.plan(Offsets(batch=batch))
        log.done()
    for name in ("offsets", "commits"):
        assert sorted(int(path.name) for path in (tmp_path / name).iterdir()) == list(range(30, 130))


def test_the_name_of_a_run_is_given_once(tmp_path: Path) -> None:
    begun(tmp_path)
    name = json.loads((tmp_path / "metadata").read_text())
    begun(tmp_path)
    assert json.loads((tmp_path / "metadata").read_text()) == name
