"""Canonical keys: equal keys have equal hashes, unequal ones are told apart, and the hash never changes its bits."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast_runtime.columns.key_columns import KeyColumns, check_key_types, same_keys
from tests.columns.key_cases import GOLDEN_KEYS, TYPES, canonical, plain_hash
from tests.error_codes import has_code

GOLDEN = Path(__file__).with_name("golden_hashes.json")
shared_fixture = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def keys(*columns: pa.Array) -> KeyColumns:
    return KeyColumns.of(columns, len(columns[0]))


def hashes(*columns: pa.Array) -> list[int]:
    return [int(found) for found in keys(*columns).hashes()]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", GOLDEN_KEYS)
def test_stored_hashes_keep_their_bits(name: str) -> None:
    assert hashes(GOLDEN_KEYS[name]) == [int(text, 16) for text in json.loads(GOLDEN.read_text())[name]]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", TYPES)
@shared_fixture
@given(data=st.data())
def test_a_hash_is_what_its_definition_says(name: str, data: st.DataObject) -> None:
    kind, values = TYPES[name]
    given_values = data.draw(st.lists(st.none() | values, max_size=30))
    assert hashes(pa.array(given_values, kind)) == [plain_hash([(value, kind)]) for value in given_values]


@pytest.mark.usefixtures("way")
@shared_fixture
@given(st.lists(st.tuples(st.none() | st.text(max_size=10), st.none() | st.integers(-5, 5)), max_size=30))
def test_a_key_of_two_columns_is_hashed_in_their_order(rows: list[tuple[str | None, int | None]]) -> None:
    texts = pa.array([text for text, _ in rows], pa.string())
    numbers = pa.array([number for _, number in rows], pa.int64())
    assert hashes(texts, numbers) == [plain_hash([(text, pa.string()), (number, pa.int64())]) for text, number in rows]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", TYPES)
@shared_fixture
@given(data=st.data())
def test_keys_are_the_same_exactly_if_their_values_are(name: str, data: st.DataObject) -> None:
    kind, values = TYPES[name]
    few = data.draw(st.lists(st.none() | values, min_size=1, max_size=6))
    made = pa.array(data.draw(st.lists(st.sampled_from(few), min_size=1, max_size=30)), kind)
    left, right = np.divmod(np.arange(len(made) ** 2), len(made))
    plain = [canonical(value) for value in made.to_pylist()]
    expected = [plain[a] == plain[b] for a, b in zip(left, right, strict=True)]
    columns = keys(made)
    assert same_keys(columns, left, columns, right).tolist() == expected
    hash_values = columns.hashes()
    assert all(hash_values[a] == hash_values[b] for a, b, same in zip(left, right, expected, strict=True) if same)


@pytest.mark.usefixtures("way")
def test_zeros_are_one_key_and_all_nan_are_one_key() -> None:
    other_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    column = pa.array(np.array([0.0, -0.0, np.nan, -np.nan, other_nan]))
    hash_values = hashes(column)
    assert hash_values[0] == hash_values[1]
    assert hash_values[2] == hash_values[3] == hash_values[4]
    columns = keys(column)
    assert same_keys(columns, np.array([0, 2, 2]), columns, np.array([1, 3, 4])).all()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.array([7, -7, None], pa.int32()), pa.array([7, -7, None], pa.int64())),
        (pa.array([1.5, None], pa.float32()), pa.array([1.5, None], pa.float64())),
        (pa.array(["ab", None]), pa.array(["ab", None], pa.large_string())),
        (pa.array(["ab", None]), pa.array([b"ab", None], pa.binary())),
        (pa.array(["ab", None, "ab"]), pa.array(["ab", None, "ab"]).dictionary_encode()),
    ],
    ids=["ints", "floats", "texts", "bytes", "dictionaries"],
)
def test_columns_of_other_widths_give_the_same_keys(narrow: pa.Array, wide: pa.Array) -> None:
    assert hashes(narrow) == hashes(wide)
    rows = np.arange(len(narrow))
    assert same_keys(keys(narrow), rows, keys(wide), rows).all()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", TYPES)
@shared_fixture
@given(data=st.data())
def test_a_slice_has_the_keys_of_its_rows(name: str, data: st.DataObject) -> None:
    kind, values = TYPES[name]
    column = pa.array(data.draw(st.lists(st.none() | values, min_size=1, max_size=20)), kind)
    start = data.draw(st.integers(0, len(column)))
    part = column.slice(start)
    assert hashes(part) == hashes(column)[start:]
    rows = np.arange(len(part))
    assert same_keys(keys(part), rows, keys(column), rows + start).all()


def test_rows_with_a_null_are_known() -> None:
    columns = keys(pa.array([1, None, 3]), pa.array(["a", "b", None]))
    mask = columns.without_nulls()
    assert mask is not None
    assert mask.tolist() == [True, False, False]
    assert keys(pa.array([1])).without_nulls() is None


@pytest.mark.usefixtures("way")
def test_without_columns_all_rows_have_one_key() -> None:
    columns = KeyColumns.of([], 3)
    assert len(set(columns.hashes().tolist())) == 1
    assert same_keys(columns, np.arange(3), columns, np.array([2, 0, 1])).all()


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.time32("s")])
def test_a_type_without_canonical_form_is_refused_by_its_column(kind: pa.DataType) -> None:
    message = r"step once: column k is of type .* and can't be a key; choose columns of texts"
    with pytest.raises(UserActionError, match=message, check=has_code("KeyTypeError")):
        check_key_types([pa.field("n", pa.int64()), pa.field("k", kind)], "once")


def test_all_types_with_a_canonical_form_are_keys() -> None:
    check_key_types([pa.field(name, kind) for name, (kind, _) in TYPES.items()], "once")
    check_key_types([pa.field("k", pa.dictionary(pa.int32(), pa.string()))], "once")


def write_golden() -> None:
    """Write the golden vectors; only for a new HASH_FORMAT."""
    trees: dict[str, Any] = {name: [f"{one:016x}" for one in hashes(column)] for name, column in GOLDEN_KEYS.items()}
    GOLDEN.write_text(json.dumps(trees, indent=2) + "\n")
