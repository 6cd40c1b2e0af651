"""Keys go where Kafka's clients put them, null keys go round, and records of one key keep their order."""

import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.spec.streams import Partitioner
from holdfast_runtime.streams.record_keys import crc32, misplaced, murmur2, place, split
from holdfast_runtime.streams.records import written_batch
from tests.tasks import murmur2 as reference

# As in the tests of Kafka itself.
GOLDEN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
# Key, its partition of 12 by murmur2, by crc32: answers of the clients, which tests/kafka/test_interop.py asks again.
PLACES = [
    (b"", 9, 0),
    (b"21", 0, 4),
    (b"42", 4, 8),
    (b"-1000", 7, 3),
    (b"foobar", 6, 5),
    ("Straße".encode(), 1, 5),
    ("鍵".encode(), 0, 8),
    (b"\xff\xfe\xfd", 8, 1),
    (b"order-1234567", 9, 5),
    (b"2026-01-01T00:00:00Z", 8, 3),
    (b'["a",1]', 8, 1),
]
some_keys = st.lists(st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=200), max_size=40)


def test_murmur2_is_that_of_java() -> None:
    assert murmur2(pa.array(list(GOLDEN), pa.binary())).astype(np.int32).tolist() == list(GOLDEN.values())


def test_keys_are_where_the_clients_of_kafka_put_them() -> None:
    keys = pa.array([key for key, _, _ in PLACES], pa.binary())
    assert place(keys, 12).tolist() == [by_murmur2 for _, by_murmur2, _ in PLACES]
    assert place(keys, 12, "crc32").tolist() == [by_crc32 for _, _, by_crc32 in PLACES]


@given(keys=some_keys, cut=st.integers(0, 40), kind=st.sampled_from([pa.binary(), pa.large_binary()]))
def test_hashes_of_any_keys_are_those_of_the_references(keys: list[bytes | None], cut: int, kind: pa.DataType) -> None:
    array = pa.array(keys, kind).slice(cut)
    rest = [key or b"" for key in keys[cut:]]
    assert murmur2(array).tolist() == [reference.murmur2(key) for key in rest]
    assert crc32(array).tolist() == [zlib.crc32(key) for key in rest]


@pytest.mark.parametrize("size", [1, 8, 9, 500])
def test_keys_of_very_different_lengths(size: int) -> None:
    keys = [bytes([i % 256]) * (i * 7 % 90) for i in range(size)] + [b"\xfe" * 100_003]
    assert murmur2(pa.array(keys, pa.binary())).tolist() == [reference.murmur2(key) for key in keys]


def test_what_a_null_slot_holds_does_not_count() -> None:
    hidden = pa.Array.from_buffers(
        pa.binary(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([0, 8, 9], np.int32)), pa.py_buffer(b"xxxxxxxxy")]
    )
    assert hidden.to_pylist() == [None, b"y"]
    assert murmur2(hidden).tolist() == [reference.murmur2(b""), reference.murmur2(b"y")]


@given(keys=some_keys, count=st.integers(1, 1000), position=st.integers(0, 10**12))
def test_every_key_has_its_place_and_nulls_take_turns(keys: list[bytes | None], count: int, position: int) -> None:
    array = pa.array(keys, pa.binary())
    turns = [(position + i) % count for i in range(len(keys))]
    assert place(array, count, position=position).tolist() == [
        turn if key is None else reference.partition_of(key, count) for key, turn in zip(keys, turns, strict=True)
    ]
    assert place(array, count, "crc32", position=position).tolist() == [
        turn if key is None else zlib.crc32(key) % count for key, turn in zip(keys, turns, strict=True)
    ]
    assert place(array, count, "none").tolist() == place(array, count).tolist()


@given(keys=some_keys, count=st.integers(1, 5))
def test_split_keeps_every_record_in_order(keys: list[bytes | None], count: int) -> None:
    records = written_batch(keys, [b"%d" % i for i in range(len(keys))], 0)
    places = place(records.column("key"), count)
    parts = {partition: part.column("value").to_pylist() for partition, part in split(records, places)}
    expected: dict[int, list[bytes]] = {}
    for i, partition in enumerate(places.tolist()):
        expected.setdefault(partition, []).append(b"%d" % i)
    assert parts == expected
    assert list(parts) == sorted(parts)


@given(some_keys, st.integers(1, 24), st.sampled_from(["murmur2", "crc32"]))
def test_misplaced_keys_are_counted_and_those_without_a_place_not(
    keys: list[bytes | None], count: int, partitioner: Partitioner
) -> None:
    given_keys = pa.array(keys, pa.binary())
    placeless = (None, b"") if partitioner == "crc32" else (None,)
    places = place(given_keys, count, partitioner).tolist()
    expected = sum(at != 0 and key not in placeless for key, at in zip(keys, places, strict=True))
    assert misplaced(given_keys, 0, count, partitioner) == expected
