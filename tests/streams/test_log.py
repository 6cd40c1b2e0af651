"""What the embedded log promises: exact ranges, everything or nothing, once, fenced, and never a silent loss."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lmdb
import pyarrow as pa
import pytest

from holdfast.errors import HoldfastError, UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog, close_all
from holdfast_runtime.streams.records import (
    FETCHED,
    Marker,
    OffsetBounds,
    OffsetNotWrittenError,
    OffsetRange,
    StreamMissingError,
    written_batch,
)
from tests.error_codes import has_code

FIRST = StreamPartition("clicks", 0)
OWNER = "ads/1"


def numbered(start: int, end: int) -> pa.RecordBatch:
    """Records that say in key, value and timestamp at which offset they should be."""
    numbers = range(start, end)
    return written_batch([b"k%d" % i for i in numbers], [b"v%d" % i for i in numbers], list(numbers))


def mark(
    batch: int, epoch: int = 1, task: str = "partition-0", *, owner: str = OWNER, life: str = "a", digest: str = "d"
) -> Marker:
    return Marker(owner, task, batch, epoch, life, digest)


def values(log: EmbeddedLog, start: int, end: int) -> list[bytes | None]:
    fetched: list[bytes | None] = log.fetch(OffsetRange(FIRST, start, end)).column("value").to_pylist()
    return fetched


def test_records_come_back_as_they_were_written(log: EmbeddedLog) -> None:
    log.ensure("clicks", 1, now=7)
    log.append(FIRST, written_batch([b"a", None, b""], [None, b"", b"\xff\0"], [5, -1, 3]))
    fetched = log.fetch(OffsetRange(FIRST, 0, 3))
    assert fetched.schema == FETCHED
    assert fetched.to_pydict() == {
        "offset": [0, 1, 2],
        "key": [b"a", None, b""],
        "value": [None, b"", b"\xff\0"],
        "timestamp": [5, -1, 3],
    }


def test_a_range_over_many_chunks_is_one_batch_in_order(log: EmbeddedLog) -> None:
    log.ensure("clicks", 1, now=0)
    log.append(FIRST, numbered(0, 40_000))
    for i in range(40_000, 40_300):
        log.append(FIRST, numbered(i, i + 1))
    fetched = log.fetch(OffsetRange(FIRST, 10, 40_290))
    assert fetched.column("offset").to_pylist() == list(range(10, 40_290))
    assert fetched.column("timestamp").to_pylist() == list(range(10, 40_290))


def test_an_empty_range_is_an_empty_batch(log: EmbeddedLog) -> None:
    log.ensure("clicks", 1, now=0)
    fetched = log.fetch(OffsetRange(FIRST, 0, 0))
    assert (fetched.num_rows, fetched.schema) == (0, FETCHED)


@pytest.mark.parametrize(("start", "end"), [(3, 2), (-1, 2)])
def test_what_is_no_range_is_refused(log: EmbeddedLog, start: int, end: int) -> None:
    log.ensure("clicks", 1, now=0)
    with pytest.raises(ValueError, match="is no range"):
        log.fetch(OffsetRange(FIRST, start, end))


def test_records_that_aged_out_are_an_error_with_cure(log: EmbeddedLog) -> None:
    log.ensure("clicks", 1, now=0)
    log.append(FIRST, numbered(0, 10))
    assert log.trim(FIRST, 4) == OffsetBounds(4, 10)
    with pytest.raises(
        UserActionError,
        match=r"clicks/0: offset 1 .* is 4: 3 of the records \[1, 8\) .*another spec",
        check=has_code("OffsetAgedOutError"),
    ):
        log.fetch(OffsetRange(FIRST, 1, 8))
    assert values(log, 4, 6) == [b"v4", b"v5"]


def test_records_beyond_the_end_are_an_error(log: EmbeddedLog) -> None:
    log.ensure("clicks", 1, now=0)
    log.append(FIRST, numbered(0, 10))
    with pytest.raises(OffsetNotWrittenError, match=r"clicks/0: records up to offset 11 .* it ends at 10"):
        log.fetch(OffsetRange(FIRST, 5, 11))


def test_a_batch_is_written_once(log: EmbeddedLog) -> None:
    log.ensure("clicks", 1, now=0)
    assert log.append(FIRST, numbered(0, 2), mark(5))
    assert not log.append(FIRST, numbered(0, 2), mark(5))
    assert not log.append(FIRST, numbered(0, 2), mark(5, epoch=2))
    assert log.append(FIRST, numbered(2, 3), mark(5, task="partition-1"))
    assert log.append(FIRST, numbered(3, 4), mark(0, owner="other/1"))
    assert log.append(FIRST, numbered(4, 5), mark(6))
    assert values(log, 0, 5) == [b"v0", b"v1", b"v2", b"v3", b"v4"]
    assert log.bounds("clicks") == {FIRST: OffsetBounds(0, 5)}
    assert log.written(FIRST, OWNER, "partition-0") == mark(6)
    assert log.written(FIRST, OWNER, "partition-9") is None


@pytest.mark.parametrize(
    ("marker", "why"),
    [
        (mark(4), "batch 4 is to be written, up to batch 5 there already"),
        (mark(5, digest="other"), "batch 5 is to be written, with other content there already"),
        (mark(5, life="b"), "batch 5 is to be written, of another checkpoint there already"),
        (mark(6, life="b"), "batch 6 is to be written, of another checkpoint there already"),
    ],
)
def test_a_batch_that_leaves_a_gap_is_refused_with_cure(log: EmbeddedLog, marker: Marker, why: str) -> None:
    log.ensure("clicks", 1, now=0)
    log.append(FIRST, numbered(0, 2), mark(5))
    with pytest.raises(
        UserActionError,
        match=rf"clicks/0 holds batch 5 .*{why}.*Bring back .* new spec\.runId",
        check=has_code("OutputsAheadError"),
    ):
        log.append_all(FIRST, [(numbered(2, 3), mark(1, task="b")), (numbered(2, 3), marker)])
    assert log.markers("clicks", OWNER) == {FIRST: [mark(5)]}
    assert values(log, 0, 2) == [b"v0", b"v1"]


def test_the_markers_of_an_owner_are_those_of_no_other(log: EmbeddedLog) -> None:
    log.ensure("clicks", 2, now=0)
    for marker in (mark(1), mark(2), mark(7, task="b"), mark(3, owner="ads/10"), mark(4, owner="ads")):
        log.append(FIRST, numbered(0, 1), marker)
    assert log.markers("clicks", OWNER) == {FIRST: [mark(7, task="b"), mark(2)], StreamPartition("clicks", 1): []}


def test_a_marker_the_log_did_not_write_is_refused(log: EmbeddedLog, tmp_path: Path) -> None:
    log.ensure("clicks", 1, now=0)
    log.append(FIRST, numbered(0, 2), mark(5))
    close_all()
    with lmdb.open(str(tmp_path / "log/clicks/0"), map_size=1 << 24) as env, env.begin(write=True) as txn:
        (key,) = [key for key, _ in txn.cursor() if key.startswith(b"m")]
        txn.put(key, b"\0" * 16)
    for use in (lambda: log.append(FIRST, numbered(2, 3), mark(6)), lambda: log.markers("clicks", OWNER)):
        with pytest.raises(
            UserActionError, match="partition-0' does not fit its checksum", check=has_code("LogDamagedError")
        ):
            use()


def test_a_batch_without_records_leaves_its_marker(log: EmbeddedLog) -> None:
    log.ensure("clicks", 1, now=0)
    assert log.append(FIRST, numbered(0, 0), mark(1))
    assert log.written(FIRST, OWNER, "partition-0") == mark(1)
    assert log.bounds("clicks")[FIRST] == OffsetBounds(0, 0)


def test_several_tasks_write_in_one_transaction(log: EmbeddedLog) -> None:
    log.ensure("clicks", 1, now=0)
    log.append(FIRST, numbered(0, 1), mark(1, task="b"))
    writes = [(numbered(1, 2), mark(1, task="a")), (numbered(0, 1), mark(1, task="b")), (numbered(2, 4), None)]
    assert log.append_all(FIRST, writes) == [True, False, True]
    assert values(log, 0, 4) == [b"v0", b"v1", b"v2", b"v3"]


def test_an_older_attempts_transaction_is_refused_as_a_whole(log: EmbeddedLog) -> None:
    log.ensure("clicks", 2, now=0)
    log.fence(["clicks"], OWNER, 3)
    for i in range(2):
        with pytest.raises(
            HoldfastError, match=r"attempt 2 of ads/1 .* but attempt 3 has taken over", check=has_code("FencedError")
        ):
            log.append_all(StreamPartition("clicks", i), [(numbered(0, 1), mark(1, 3)), (numbered(0, 1), mark(1, 2))])
    assert log.bounds("clicks") == {FIRST: OffsetBounds(0, 0), StreamPartition("clicks", 1): OffsetBounds(0, 0)}
    assert log.written(FIRST, OWNER, "partition-0") is None
    assert log.append(FIRST, numbered(0, 1), mark(1, owner="other/1"))


def test_a_newer_attempts_first_write_fences_and_fences_never_sink(log: EmbeddedLog) -> None:
    log.ensure("clicks", 1, now=0)
    log.append(FIRST, numbered(0, 1), mark(1, epoch=5))
    log.fence(["clicks"], OWNER, 4)
    with pytest.raises(HoldfastError, check=has_code("FencedError")):
        log.append(FIRST, numbered(1, 2), mark(2, epoch=4))


def test_partitions_that_are_added_know_the_fence(log: EmbeddedLog) -> None:
    log.ensure("clicks", 1, now=0)
    log.append(FIRST, numbered(0, 3))
    log.fence(["clicks"], OWNER, 2)
    assert log.grow("clicks", 3).partitions == 3
    assert log.bounds("clicks")[FIRST] == OffsetBounds(0, 3)
    with pytest.raises(HoldfastError, check=has_code("FencedError")):
        log.append(StreamPartition("clicks", 2), numbered(0, 1), mark(1, epoch=1))
    with pytest.raises(
        UserActionError, match="has 3 partitions and can't shrink to 2", check=has_code("PartitionCountError")
    ):
        log.grow("clicks", 2)


def test_another_partition_count_is_refused_with_both(log: EmbeddedLog) -> None:
    log.ensure("clicks", 4, now=0)
    assert log.ensure("clicks", 4, now=9).created == 0
    with pytest.raises(
        UserActionError, match=r"has 4 partitions in .*, but 8 are wanted", check=has_code("PartitionCountError")
    ):
        log.ensure("clicks", 8, now=0)


def test_what_is_not_there_is_an_error(log: EmbeddedLog) -> None:
    assert (log.streams(), log.has("clicks")) == ([], False)
    with pytest.raises(StreamMissingError, match="there is no stream clicks"):
        log.bounds("clicks")
    log.ensure("clicks", 2, now=0)
    with pytest.raises(StreamMissingError, match=r"clicks/2 .* clicks has 2 partitions"):
        log.fetch(OffsetRange(StreamPartition("clicks", 2), 0, 1))
    assert [meta.stream for meta in log.streams()] == ["clicks"]


@pytest.mark.parametrize("name", ["ads.clicks", "../up", "a/b", ".hidden", "ünï", "con trol"])
def test_any_topic_name_stays_inside_the_directory(log: EmbeddedLog, tmp_path: Path, name: str) -> None:
    log.ensure(name, 1, now=0)
    log.append(StreamPartition(name, 0), numbered(0, 1))
    assert [meta.stream for meta in log.streams()] == [name]
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    with pytest.raises(StreamMissingError, match="can't be the name"):
        log.has("x" * 256)


def test_records_are_kept_by_number_and_by_age(log: EmbeddedLog) -> None:
    log.ensure("clicks", 1, now=0)
    for i in range(0, 3000, 1000):
        log.append(FIRST, numbered(i, i + 1000))
    assert log.trim_older(FIRST, 500) == OffsetBounds(0, 3000), "the chunk holds newer ones"
    assert log.trim_older(FIRST, 1000) == OffsetBounds(1000, 3000)
    assert log.trim_to(FIRST, 1500) == OffsetBounds(1500, 3000)
    assert log.trim_to(FIRST, 9000) == OffsetBounds(1500, 3000)
    assert log.trim(FIRST, 9000) == OffsetBounds(3000, 3000)
    log.append(FIRST, numbered(3000, 3001))
    assert values(log, 3000, 3001) == [b"v3000"]


def test_trimmed_space_is_used_again(log: EmbeddedLog) -> None:
    log.ensure("clicks", 1, now=0)
    sizes = []
    for i in range(0, 60_000, 1000):
        log.append(FIRST, numbered(i, i + 1000))
        log.trim_to(FIRST, 2000)
        sizes.append(log.size("clicks"))
    assert sizes[-1] <= sizes[9]


def test_a_full_partition_says_so_and_can_be_trimmed(log: EmbeddedLog) -> None:
    log.ensure("clicks", 1, now=0, map_size=1 << 20)
    large = written_batch([None] * 100, [os.urandom(1000) for _ in range(100)], 0)

    def append_often() -> None:
        for _ in range(20):
            log.append(FIRST, large)

    with pytest.raises(
        UserActionError, match=r"clicks/0 is full: .* may hold 1048576 bytes .* trim", check=has_code("LogFullError")
    ) as caught:
        append_often()
    assert "nothing" in str(caught.value).lower()
    end = log.bounds("clicks")[FIRST].end
    assert end % 100 == 0
    assert log.trim(FIRST, end) == OffsetBounds(end, end)
    assert log.append(FIRST, large)


def test_foreign_and_cut_files_are_named(log: EmbeddedLog, tmp_path: Path) -> None:
    log.ensure("clicks", 2, now=0)
    for _ in range(40):
        log.append(FIRST, written_batch([None] * 100, [os.urandom(1000)] * 100, 0))
    close_all()
    folder = tmp_path / "log" / "clicks"
    data = folder / "0" / "data.mdb"
    os.truncate(data, data.stat().st_size // 2)
    with pytest.raises(UserActionError, match=r"clicks/0 .*it was cut off", check=has_code("LogDamagedError")):
        log.bounds("clicks")
    data.write_bytes(b"not LMDB" * 4096)
    with pytest.raises(UserActionError, match="clicks/0", check=has_code("LogDamagedError")):
        log.bounds("clicks")
    data.unlink()
    with pytest.raises(UserActionError, match=r"clicks/0 .* no data\.mdb", check=has_code("LogDamagedError")):
        log.bounds("clicks")
    data.write_bytes((folder / "1" / "data.mdb").read_bytes())
    with pytest.raises(
        UserActionError, match="it has the name clicks/1, and should be clicks/0", check=has_code("LogDamagedError")
    ):
        log.bounds("clicks")


@pytest.mark.parametrize("text", ["", "[]", '{"stream": "clicks"}', "\xff"])
def test_a_stream_without_its_file_is_named(log: EmbeddedLog, tmp_path: Path, text: str) -> None:
    log.ensure("clicks", 1, now=0)
    (tmp_path / "log" / "clicks" / "stream.json").write_text(text, encoding="latin-1")
    with pytest.raises(
        UserActionError,
        match=r"clicks is not a stream .* stream\.json can't be read",
        check=has_code("LogDamagedError"),
    ):
        log.bounds("clicks")


def test_another_format_is_refused(log: EmbeddedLog, tmp_path: Path) -> None:
    log.ensure("clicks", 1, now=0)
    path = tmp_path / "log" / "clicks" / "stream.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), "format": 3}), encoding="utf-8")
    with pytest.raises(
        UserActionError, match=r"is in format 3 .* this release reads 2", check=has_code("LogDamagedError")
    ):
        log.bounds("clicks")


def test_a_stream_made_anew_is_noticed_by_other_processes(log: EmbeddedLog, tmp_path: Path) -> None:
    log.ensure("clicks", 1, now=0)
    log.append(FIRST, numbered(0, 5))
    (tmp_path / "log" / "clicks").rename(tmp_path / "aside")
    log.ensure("clicks", 1, now=1)
    assert log.bounds("clicks")[FIRST] == OffsetBounds(0, 0)


def test_two_logs_share_open_files_unless_their_sync_differs(log: EmbeddedLog, tmp_path: Path) -> None:
    log.ensure("clicks", 1, now=0)
    log.append(FIRST, numbered(0, 1))
    assert EmbeddedLog(tmp_path / "log", sync=False).bounds("clicks")[FIRST] == OffsetBounds(0, 1)
    with pytest.raises(UserActionError, match="sync=False", check=has_code("OpenedOtherwiseError")):
        EmbeddedLog(tmp_path / "log").bounds("clicks")


def test_an_append_that_waits_for_the_disk_is_the_default(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "safe")
    log.ensure("clicks", 1, now=0)
    assert log.append(FIRST, numbered(0, 3), mark(1))
    assert log.bounds("clicks")[FIRST] == OffsetBounds(0, 3)
    close_all()
    assert log.fetch(OffsetRange(FIRST, 0, 3)).num_rows == 3
    close_all()


def test_threads_share_an_open_partition(log: EmbeddedLog) -> None:
    log.ensure("clicks", 1, now=0)
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda i: log.append(FIRST, numbered(0, 10), mark(1, task=f"t{i}")), range(40)))
    assert all(done)
    assert log.bounds("clicks")[FIRST] == OffsetBounds(0, 400)


def test_a_growth_that_ended_halfway_goes_on(log: EmbeddedLog, tmp_path: Path) -> None:
    log.ensure("clicks", 1, now=0)
    path = tmp_path / "log" / "clicks" / "stream.json"
    before = path.read_text(encoding="utf-8")
    log.grow("clicks", 2)
    path.write_text(before, encoding="utf-8")
    log.fence(["clicks"], OWNER, 7)
    log.grow("clicks", 3)
    for i in range(3):
        with pytest.raises(HoldfastError, check=has_code("FencedError")):
            log.append(StreamPartition("clicks", i), numbered(0, 1), mark(1, epoch=6))
