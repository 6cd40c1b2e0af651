"""What a batch did to a task is read back as it was written, however large it is."""

from io import BytesIO

import pytest

from holdfast_runtime.state.store.delta import Delta, pack_delta, read_delta
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
