"""What a function keeps comes back as it was, and nothing else is taken."""

import collections
import enum
import pickle
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.steps.keyed.state_values import pack, supported, unpack, unsupported

zones = st.sampled_from(
    [None, UTC, timezone(timedelta(hours=-3, minutes=30)), ZoneInfo("Europe/Berlin"), ZoneInfo("UTC")]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
    | st.datetimes(timezones=zones)
    | st.dates()
    | st.times(timezones=st.sampled_from([None, UTC]))
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
)
hashable = st.recursive(scalars, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4)
nested = st.recursive(
    hashable,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.sets(hashable, max_size=4)
    ),
    max_leaves=10,
)
states = st.dictionaries(hashable, nested, max_size=5)


def shape(value: Any) -> Any:
    """Tells 1 from True and 1.0, and -0.0 from 0.0; zones by what they are."""
    if isinstance(value, dict):
        return [(shape(key), shape(inner)) for key, inner in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [shape(inner) for inner in value]
    if isinstance(value, set | frozenset):
        return type(value), sorted(repr(shape(inner)) for inner in value)
    return type(value), repr(value)


@given(states)
def test_what_is_kept_comes_back_as_it_was(state: dict[Any, Any]) -> None:
    assert supported(state)
    assert unsupported(state) is None
    content = pack(state)
    back = unpack(content)
    assert back == state
    assert shape(back) == shape(state)
    assert pack(back) == content


@given(st.binary(max_size=60))
def test_other_bytes_are_an_error_or_plain_values(content: bytes) -> None:
    try:
        unpacked = unpack(content)
    except Exception as error:  # noqa: BLE001 - any error, but no code
        assert isinstance(error, ValueError | TypeError | ArithmeticError | LookupError)
    else:
        assert type(unpacked).__module__ in ("builtins", "datetime", "decimal", "uuid", "msgpack")


def test_bytes_of_pickle_are_not_run() -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return exec, ("raise SystemExit('it ran')",)

    with pytest.raises(ValueError):  # noqa: PT011 - the library's own
        unpack(pickle.dumps(Evil()))


class Colour(enum.IntEnum):
    RED = 1


class OtherZone(tzinfo):
    def utcoffset(self, _: Any) -> timedelta:
        return timedelta(hours=1)

    def dst(self, _: Any) -> None:
        return None

    def tzname(self, _: Any) -> str:
        return "other"


Point = collections.namedtuple("Point", "x y")
itself: list[Any] = []
itself.append(itself)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (bytearray(b"x"), "f"),
        (memoryview(b"x"), "f"),
        (Colour.RED, "f"),
        (Point(1, 2), "f"),
        (collections.defaultdict(int), "f"),
        (collections.Counter("a"), "f"),
        (collections.deque(), "f"),
        (np.int64(1), "f"),
        (np.float64(1), "f"),
        (np.array([1]), "f"),
        (1j, "f"),
        (range(3), "f"),
        (int, "f"),
        ({"a": [1, (2, {3: object()})]}, "f['a'][1][1][3]"),
        ({Colour.RED: 1}, "f key <Colour.RED: 1>"),
        (datetime(2026, 1, 1, tzinfo=OtherZone()), "f"),
        ([time(1, tzinfo=OtherZone())], "f[0]"),
        (itself, "f[0][0]"),
    ],
)
def test_what_would_come_back_changed_is_refused_by_name(value: Any, path: str) -> None:
    assert not supported({"g": 1, "f": value})
    fault = unsupported({"g": 1, "f": value})
    assert fault is not None
    assert fault.path.startswith(path)


@pytest.mark.parametrize(
    "value", [float("inf"), -0.0, 1 << 64, -(1 << 63) - 1, "\ud800", Decimal("NaN"), Decimal("1E+3")]
)
def test_values_at_the_edges(value: Any) -> None:
    assert repr(unpack(pack(value))) == repr(value)


def test_an_hour_of_summer_and_of_winter_time_differ() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    for fold in (0, 1):
        moment = datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=fold)
        back = unpack(pack(moment))
        assert (back.fold, back.utcoffset(), back.tzinfo) == (fold, moment.utcoffset(), berlin)


def test_sets_of_equal_members_have_equal_bytes() -> None:
    assert pack({3, 1, 2, 70}) == pack({70, 2, 1, 3})
    assert pack({"a": {UUID(int=1), date(2026, 1, 1)}}) == pack({"a": {date(2026, 1, 1), UUID(int=1)}})
