"""The embedded log against a model: a list of records, a set of batches, and nothing else."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog, close_all
from holdfast_runtime.streams.records import Marker, OffsetBounds, OffsetRange, written_batch
from tests.error_codes import has_code

HERE = StreamPartition("s", 0)
small = st.lists(st.tuples(st.none() | st.binary(max_size=4), st.none() | st.binary(max_size=400)), max_size=12)
large = st.integers(200, 900).map(lambda n: [(b"%d" % n, b"x" * 30)] * n)
appends = st.tuples(st.just("append"), small | large, st.tuples(st.sampled_from("ab"), st.integers(0, 6)) | st.none())
trims = st.tuples(st.just("trim"), st.integers(0, 1500), st.none())


@given(
    steps=st.lists(appends | trims, max_size=12), cuts=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=5)
)
def test_any_range_after_any_history_is_what_the_model_says(
    steps: list[tuple[str, list[tuple[bytes | None, bytes | None]] | int, tuple[str, int] | None]],
    cuts: list[tuple[float, float]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = EmbeddedLog(Path(folder), sync=False)
        log.ensure("s", 1, now=0)
        model: list[tuple[bytes | None, bytes | None]] = []
        oldest, newest = 0, {"a": -1, "b": -1}
        for _, what, by in steps:
            if isinstance(what, int):
                oldest = min(max(oldest, what), len(model))
                assert log.trim(HERE, what) == OffsetBounds(oldest, len(model))
                continue
            records = written_batch([key for key, _ in what], [value for _, value in what], 1)
            new = by is None or by[1] > newest[by[0]]
            marker = None if by is None else Marker("app/1", by[0], by[1], 1, "life", "digest")
            if by is not None and by[1] < newest[by[0]]:
                with pytest.raises(UserActionError, check=has_code("OutputsAheadError")):
                    log.append(HERE, records, marker)
                continue
            assert log.append(HERE, records, marker) is new
            if new:
                model += what
                newest |= {} if by is None else {by[0]: by[1]}
        assert log.bounds("s") == {HERE: OffsetBounds(oldest, len(model))}
        span = len(model) - oldest
        for low, high in [(0.0, 1.0), *cuts]:
            start, end = sorted((oldest + round(low * span), oldest + round(high * span)))
            fetched = log.fetch(OffsetRange(HERE, start, end))
            assert fetched.column("offset").to_pylist() == list(range(start, end))
            pairs = zip(fetched.column("key").to_pylist(), fetched.column("value").to_pylist(), strict=True)
            assert list(pairs) == model[start:end]
        close_all()
