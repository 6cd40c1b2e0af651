"""Spark's own logs, as they are read from outside."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.offset_log import OffsetLogState, check_query, read_offset_log
from holdfast_runtime.checkpoint.offsets import Offsets, OffsetsUnreadableError
from holdfast_runtime.state.errors import CheckpointUnavailableError


def planned(query: Path, number: int, offsets: Offsets) -> None:
    (query / "offsets").mkdir(parents=True, exist_ok=True)
    text = "\n".join(["v1", '{"batchWatermarkMs":0}', json.dumps({"offsets": offsets.text()})])
    (query / "offsets" / str(number)).write_text(text)
    (query / "offsets" / f".{number}.crc").touch()


def done(query: Path, number: int) -> None:
    (query / "commits").mkdir(parents=True, exist_ok=True)
    (query / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


EARLIER = (
    '{"format":2,"batch":12,"now":1796000000000,"positions":{"a/2":9,"a/10":5,"b/0":7},"turns":{"partition-10":12,'
    '"partition-2":3},"ends":{"a/10":5},"starts":{"a/2":4},"takingPart":["partition-2"],"ids":{"a":"y","b":"x\\u00e9"},'
    '"skew":4,"recordBytes":{"b":20},"epochs":{"b/0":1},"crc32":4256591920}'
)
"""As an earlier release wrote them."""


def test_offsets_are_written_as_earlier_releases_wrote_them() -> None:
    offsets = Offsets.parse(EARLIER)
    assert (offsets.batch, offsets.positions[StreamPartition("a", 10)], offsets.ids["b"]) == (12, 5, "x\xe9")
    backwards = {name: getattr(offsets, name) for name in ("positions", "turns", "ends", "starts", "ids", "epochs")}
    shuffled: dict[str, Any] = {name: dict(reversed(numbers.items())) for name, numbers in backwards.items()}
    assert replace(offsets, **shuffled).text() == EARLIER


def test_nothing_is_known_of_a_run_without_a_batch(tmp_path: Path) -> None:
    assert read_offset_log(tmp_path / "query") is None


def test_a_batch_is_known_when_planned_and_counts_when_done(tmp_path: Path) -> None:
    planned(tmp_path, 0, Offsets(1))
    assert read_offset_log(tmp_path) == OffsetLogState(Offsets(), Offsets(1))
    done(tmp_path, 0)
    assert read_offset_log(tmp_path) == OffsetLogState(Offsets(1), None)
    for number in range(1, 11):
        planned(tmp_path, number, Offsets(number + 1))
        done(tmp_path, number)
    planned(tmp_path, 11, Offsets(12))
    assert read_offset_log(tmp_path) == OffsetLogState(Offsets(11), Offsets(12))


def test_a_missing_entry_is_told_from_a_run_without_any(tmp_path: Path) -> None:
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


def of_spark(query: Path, last: int) -> Path:
    """A checkpoint as Spark leaves it, but for checksums of logs, which its file system may do without."""
    for number in range(last + 1):
        planned(query, number, Offsets(number + 1))
        (query / "offsets" / f".{number}.crc").unlink()
        text = "\n".join(["v1", '{"batchTimestampMs":1}', json.dumps({"offsets": Offsets(number + 1).text()})])
        (query / "offsets" / str(number)).write_text(text)
        done(query, number)
    # Bytes of a run of Spark 4.3.
    (query / "metadata").write_text('{"id":"7dc9cffc-85c6-47e0-afb5-2a3bec39992d"}')
    (query / ".metadata.crc").write_bytes(bytes.fromhex("6372630000000200f54827c2"))
    return query


def test_a_checkpoint_as_spark_left_it_is_gone_on_with(tmp_path: Path) -> None:
    check_query(tmp_path / "none")
    query = of_spark(tmp_path, 4)
    check_query(query)
    # The batch runs again; older entries nobody reads.
    (query / "commits" / "4").unlink()
    (query / "offsets" / "2").unlink()
    (query / ".metadata.crc").unlink()
    check_query(query)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 2
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "damage", "says"),
    [
        ("offsets/4", Path.unlink, "offsets/4 is missing, though its batch is done"),
        ("offsets/4", lambda path: path.write_bytes((path.parent / "3").read_bytes()), "offsets/4 is of batch 4"),
        ("offsets/3", Path.unlink, "offsets/3 is missing, though the batch after it is planned"),
        ("offsets/4", flip, "offsets/4: the offset log holds"),
        ("offsets/3", flip, "offsets/3: the offset log holds"),
        ("offsets/4", lambda path: path.write_bytes(b""), "offsets/4"),
        ("commits/4", lambda path: path.write_bytes(b"v1"), "commits/4"),
        ("commits/4", lambda path: path.write_bytes(b"\xff\xfe"), "commits/4"),
        ("metadata", flip, "metadata does not fit its checksums"),
        (".metadata.crc", flip, "metadata does not fit its checksums"),
        ("metadata", lambda path: path.write_bytes(b""), "metadata"),
    ],
)
def test_damage_that_spark_would_stumble_over_is_named_first(
    tmp_path: Path, name: str, damage: Callable[[Path], object], says: str
) -> None:
    query = of_spark(tmp_path, 4)
    damage(query / name)
    with pytest.raises(UserActionError, match=says) as refused:
        check_query(query)
    assert "put the checkpoint back" in str(refused.value)
