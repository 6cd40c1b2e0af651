"""What Debezium's connectors for PostgreSQL and MySQL have written, beside what the databases held."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from tests.changes.records import batch, codec, recorded, rows, tables

CUSTOMERS = "id INT, name STRING, credit DECIMAL(9,2), since DATE, seen TIMESTAMP, level SMALLINT"
BARE = "id INT, name STRING, credit STRING, since INT, seen TIMESTAMP, level SMALLINT"
KINDS_OF_BOTH = (
    "a SMALLINT, b BIGINT, s STRING, f FLOAT, g DOUBLE, n DECIMAL(20,4), d DATE, tm TIME, j STRING, bi BINARY"
)
POSTGRES = (
    "a SMALLINT, b BIGINT, s STRING, f FLOAT, g DOUBLE, bo BOOLEAN, n DECIMAL(20,4), nn DECIMAL(38,5), d DATE, t TIME, "
    "tm TIME, ts3 TIMESTAMP_NTZ, ts TIMESTAMP, tz TIMESTAMP, `by` BINARY, u STRING, j STRING, ar ARRAY<INT>, "
    "st ARRAY<STRING>, iv BIGINT, bits BINARY"
)
MYSQL = (
    "a SMALLINT, b BIGINT, s STRING, f FLOAT, g DOUBLE, bo SMALLINT, n DECIMAL(20,4), bu BIGINT, iu BIGINT, d DATE, "
    "t BIGINT, tm TIME, dt TIMESTAMP_NTZ, dt6 TIMESTAMP, ts TIMESTAMP, by_ BINARY, j STRING, e STRING, st STRING, "
    "bi BINARY, yr INT"
)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


def naive(*parts: int) -> datetime:
    return utc(*parts).replace(tzinfo=None)


def customer(name: str, credit: str, since: date, moment: datetime | None, level: int | None = None) -> dict[str, Any]:
    return {"name": name, "credit": Decimal(credit), "since": since, "seen": moment, "level": level}


@pytest.mark.parametrize("database", ["postgres", "mysql"])
def test_a_table_is_what_the_database_has(database: str) -> None:
    # MariaDB's TIMESTAMP has no moments before 1970.
    early = utc(1970, 1, 2, 23, 59, 59, 999999) if database == "mysql" else utc(1969, 12, 31, 23, 59, 59, 999999)
    assert tables(codec(CUSTOMERS, "id"), *recorded(database, "wrapped", "customers")) == {
        (1,): {"id": 1} | customer("Ada L.", "12.75", date(2019, 4, 1), utc(2026, 1, 1, 8, 0, 0, 500000), 2),
        (2,): {"id": 2} | customer("Bo", "0.00", date(2026, 1, 2), None, 1),
        (4,): {"id": 4} | customer("Dee", "99.99", date(2024, 12, 31), utc(2026, 1, 1, 9)),
        (5,): {"id": 5} | customer("Cy", "-0.05", date(1969, 12, 31), early),
    }


@pytest.mark.parametrize("database", ["postgres", "mysql"])
def test_without_schemas_the_same_rows_are_read(database: str) -> None:
    reader = codec(BARE, "id")
    bare = tables(reader, *recorded(database, "bare", "customers"))
    wrapped = tables(codec(CUSTOMERS, "id"), *recorded(database, "wrapped", "customers"))
    same = ("id", "name", "seen", "level")
    assert [{name: row[name] for name in same} for row in bare.values()] == [
        {name: row[name] for name in same} for row in wrapped.values()
    ]
    assert (bare[(4,)]["credit"], bare[(4,)]["since"]) == ("Jw8=", 20088)


@pytest.mark.parametrize("database", ["postgres", "mysql"])
@pytest.mark.parametrize("column", ["credit DECIMAL(9,2)", "since DATE"])
def test_without_schemas_what_only_these_tell_is_refused(database: str, column: str) -> None:
    decoded = codec(f"id INT, {column}", "id").decode(batch(recorded(database, "bare", "customers")[:1]))
    assert "schemas.enable=true" in decoded.bad[0].reason


def test_each_type_of_postgresql_is_read() -> None:
    first, empty, third = rows(codec(POSTGRES, "a", "b"), *recorded("postgres", "wrapped", "kinds")[:2], _third())
    assert first == {
        "a": 1, "b": 9007199254740993, "s": 'x"y\\z', "f": 1.5, "g": 0.1, "bo": True, "n": Decimal("12345678.1234"),
        "nn": Decimal("3.14159"), "d": date(2020, 2, 29), "t": time(12, 34, 56, 789000),
        "tm": time(12, 34, 56, 789012), "ts3": naive(2018, 6, 20, 15, 13, 16, 945000),
        "ts": utc(2018, 6, 20, 15, 13, 16, 945104), "tz": utc(2018, 6, 20, 13, 13, 16, 945104),
        "by": b"\x00\xff\x10", "u": "6b5b2ed9-3d3a-4a3c-8f0d-111111111111", "j": '{"k": [1, 2]}', "ar": [1, None, 3],
        "st": ["a", "b"], "iv": 93_600_000_000, "bits": b"\xaa\x0a", "deleted": False,
    }  # fmt: skip
    assert {name for name, value in empty.items() if value is not None} == {"a", "b", "deleted"}
    assert third["nn"] == Decimal("-12345678901234567890.50000")
    assert (third["n"], third["d"], third["ts"]) == (Decimal("-0.0001"), date(1, 1, 1), utc(1965, 1, 1, 0, 0, 0, 1))
    assert (third["ts3"], third["by"], third["ar"]) == (naive(1960, 1, 1, 0, 0, 0, 1000), b"", [])


def _third() -> tuple[bytes | None, bytes | None]:
    """The third row without a moment in the year 1 before Christ, which no column can hold."""
    key, value = recorded("postgres", "wrapped", "kinds")[2]
    assert value is not None
    assert b'"tz":"0000-12-30T00:00:00.000000Z"' in value
    return key, value.replace(b'"tz":"0000-12-30T00:00:00.000000Z"', b'"tz":null')


def test_a_moment_before_the_year_1_is_bad() -> None:
    decoded = codec(POSTGRES, "a", "b").decode(batch(recorded("postgres", "wrapped", "kinds")[2:3]))
    assert "field after.tz holds 0000-12-30" in decoded.bad[0].reason


def test_a_text_that_debezium_no_longer_has_is_bad() -> None:
    decoded = codec("a INT, b BIGINT, s STRING, h STRING", "a", "b").decode(
        batch(recorded("postgres", "wrapped", "kinds"))
    )
    assert ["h was not changed, and is not in" in record.reason for record in decoded.bad] == [True]
    assert not codec("a INT, b BIGINT, s STRING", "a", "b").decode(batch(recorded("postgres", "wrapped", "kinds"))).bad


def test_each_type_of_mysql_is_read() -> None:
    first, empty, third, changed, deleted, again = rows(codec(MYSQL, "a", "b"), *recorded("mysql", "wrapped", "kinds"))
    assert first == {
        "a": 1, "b": 9007199254740993, "s": 'x"y\\z', "f": 1.5, "g": 0.1, "bo": 1, "n": Decimal("12345678.1234"),
        "bu": -1, "iu": 4294967295, "d": date(2020, 2, 29), "t": 45_296_000_000, "tm": time(12, 34, 56, 789012),
        "dt": naive(2018, 6, 20, 15, 13, 16), "dt6": utc(2018, 6, 20, 15, 13, 16, 945104),
        "ts": utc(2018, 6, 20, 15, 13, 16), "by_": b"\x00\xff\x10", "j": '{"k":[1,2]}', "e": "y", "st": "p,q",
        "bi": b"\xaa\x0a", "yr": 2018, "deleted": False,
    }  # fmt: skip
    assert {name for name, value in empty.items() if value is not None} == {"a", "b", "deleted"}
    assert (third["g"], third["d"], third["dt"]) == (1e300, date(1000, 1, 1), naive(1000, 1, 1))
    assert third["t"] == -3_600_000_000
    assert changed == first | {"s": "changed"}
    assert [(row["a"], row["deleted"]) for row in (deleted, again)] == [(2, True), (2, True)]


def test_a_time_of_mysql_beyond_a_day_is_bad() -> None:
    decoded = codec("a INT, b BIGINT, t TIME", "a", "b").decode(batch(recorded("mysql", "wrapped", "kinds")))
    assert [record.reason for record in decoded.bad] == [
        "field after.t holds -3600000000, a count of some unit since midnight, which does not fit TIME(6)"
    ]
