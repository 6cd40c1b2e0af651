"""What a batch did to a task is read back as it was written, however large it is."""

from io import BytesIO

import pytest

from holdfast_runtime.state.store.delta import Delta, pack_delta, read_delta
from holdfast_runtime.state.store.object_names import ObjectName, delta_name, listing, obsolete, snapshot_name
from tests.state.places import TASK


@pytest.mark.parametrize("rows", [0, 1, 150, 160, 170, 2_500, 2_700, 60_000])
def test_deltas_of_any_size_are_read_as_written(rows: int) -> None:
    """Some sizes are not compressed, some by one codec, some by another."""
    changes = [(b"key-%06d" % number, None if number % 7 == 0 else b"value %d " % number * 9) for number in range(rows)]
    delta = Delta(
        TASK, 7, 2, 1, {"counts": changes, "last": [(b"k", b"v")]}, {"out/0": b"record " * rows, "out/1": b""}
    )
    packed = pack_delta(delta)
    assert rows < 1000 or len(packed.state) < sum(len(value or b"") for _, value in changes) / 2
    reread = read_delta("delta", BytesIO(b"".join(packed.chunks)).read)
    assert (reread.tables, reread.outputs) == (delta.tables, delta.outputs)
    assert reread.digest == packed.delta.digest


def test_a_delta_without_its_outputs_says_where_they_are() -> None:
    delta = Delta(TASK, 7, 2, 1, {"last": [(b"k", b"v")]}, {"out/0": b"record"}, withheld="events")
    packed = pack_delta(delta)
    content = b"".join(packed.chunks)
    assert content.startswith(b"holdfast-delta 3 "), "earlier releases would take it for one of no outputs"
    assert packed.delta.outputs == {"out/0": b"record"}, "they are still to be written"
    reread = read_delta("delta", BytesIO(content).read)
    assert (reread.outputs, reread.withheld, reread.tables) == ({}, "events", delta.tables)


def test_of_several_deltas_of_a_batch_the_last_try_counts() -> None:
    tries = [(1, 2), (2, 0), (2, 1), (2, 10)]
    names = [delta_name(7, epoch, retry) for epoch, retry in tries]
    assert listing(reversed(names)).delta(7) == ObjectName(7, 2, 10, "delta-00000000000000000007-0000000002-000010")
    assert obsolete(listing([*names, snapshot_name(8, 2), snapshot_name(7, 2)]))[-4:] == tuple(names)
