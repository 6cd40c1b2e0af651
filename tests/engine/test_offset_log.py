"""Spark's own logs, as they are read from outside."""

import json
from pathlib import Path

import pytest

from holdfast_runtime.offset_log import Logged, read_offset_log
from holdfast_runtime.offsets import Offsets, OffsetsUnreadableError
from holdfast_runtime.state.errors import CheckpointUnavailableError


def planned(query: Path, number: int, offsets: Offsets) -> None:
    (query / "offsets").mkdir(parents=True, exist_ok=True)
    text = "\n".join(["v1", '{"batchWatermarkMs":0}', json.dumps({"offsets": offsets.text()})])
    (query / "offsets" / str(number)).write_text(text)
    (query / "offsets" / f".{number}.crc").touch()


def done(query: Path, number: int) -> None:
    (query / "commits").mkdir(parents=True, exist_ok=True)
    (query / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_nothing_is_known_of_a_run_that_never_planned_a_batch(tmp_path: Path) -> None:
    assert read_offset_log(tmp_path / "query") is None


def test_a_batch_counts_when_it_is_done_and_is_known_when_it_is_planned(tmp_path: Path) -> None:
    planned(tmp_path, 0, Offsets(1))
    assert read_offset_log(tmp_path) == Logged(Offsets(), Offsets(1))
    done(tmp_path, 0)
    assert read_offset_log(tmp_path) == Logged(Offsets(1), None)
    for number in range(1, 11):
        planned(tmp_path, number, Offsets(number + 1))
        done(tmp_path, number)
    planned(tmp_path, 11, Offsets(12))
    assert read_offset_log(tmp_path) == Logged(Offsets(11), Offsets(12))


def test_an_entry_that_is_missing_is_told_from_a_run_without_any(tmp_path: Path) -> None:
    planned(tmp_path, 0, Offsets(1))
    done(tmp_path, 3)
    with pytest.raises(CheckpointUnavailableError, match="put the checkpoint back"):
        read_offset_log(tmp_path)


@pytest.mark.parametrize("text", ["", "v2\n{}\n{}", "v1\n{}", "v1\n{}\n-", 'v1\n{}\n{"offsets": "{}"}'])
def test_an_entry_of_another_kind_is_refused(tmp_path: Path, text: str) -> None:
    planned(tmp_path, 0, Offsets(1))
    done(tmp_path, 0)
    (tmp_path / "offsets" / "0").write_text(text)
    with pytest.raises(OffsetsUnreadableError):
        read_offset_log(tmp_path)
