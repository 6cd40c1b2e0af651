"""What operator and driver write for each other comes back as it was, and what is spoilt is said to be."""

import json
from dataclasses import replace

import pytest

from holdfast.protocol.assignment import Assignment, AssignmentInvalidError, VersionedAssignment, read_assignment
from holdfast.protocol.attempt import AttemptOrders, read_orders
from holdfast.protocol.report import MOST_STREAMS, DriverReport, RowRates, read_report

HANDED = VersionedAssignment(
    3, 2, {"exec-0": "claim-0", "exec-1": "claim-1"}, Assignment({"exec-0": ("p-0",), "exec-1": ()})
)


def test_what_is_written_is_read_again() -> None:
    report = DriverReport(
        2,
        1000,
        batch=7,
        progressed=990,
        lag=5,
        tasks=4,
        partitions=8,
        placed=3,
        assignment=3,
        waiting=9,
        held_back="x",
        lags={"clicks": 4, "views": 1},
        rows=RowRates({"clicks": 1200.0, "views": 0.25}, {"out": 3.0}),
    )
    orders = AttemptOrders("ads", "apps", "u-1", "1", 2, "ads-assignment", "ads-report", {"clicks": 4, "new": None})
    assert read_assignment(HANDED.text()) == HANDED
    assert read_report(report.text()) == report
    assert read_report(replace(report, rows=RowRates()).text()) == replace(report, rows=RowRates())
    assert read_orders(orders.text()) == orders


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"version": 1}', '{"attempt": "x", "at": 1}'])
def test_what_is_spoilt_is_told_apart(text: str) -> None:
    assert read_report(text) is None
    with pytest.raises(AssignmentInvalidError, match="delete its ConfigMap"):
        read_assignment(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"attempt": 1, "at": 1, "batch": 1e400}',
        '{"attempt": 1, "at": 1, "progressed": NaN}',
        '{"attempt": 1, "at": 1, "lag": -1}',
        f'{{"attempt": {"9" * 4000}, "at": 1}}',
        f'{{"attempt": {"9" * 5000}, "at": 1}}',
        f'{{"attempt": 1, "at": 1, "more": "{"x" * 100_000}"}}',
        '{"version": Infinity, "attempt": 1, "assignment": {}, "processors": {}}',
    ],
)  # fmt: skip
def test_texts_an_app_may_have_forged_are_unreadable(text: str) -> None:
    assert read_report(text) is None
    with pytest.raises(AssignmentInvalidError, match="delete its ConfigMap") as refused:
        read_assignment(text)
    assert len(str(refused.value)) < 400


def test_a_drivers_sentence_is_short_and_harmless_to_a_terminal() -> None:
    held = read_report(json.dumps({"attempt": 1, "at": 1, "heldBack": "a\x1b[2J\n" * 1000}))
    assert held is not None
    assert held.held_back is not None
    assert held.held_back.isprintable()
    assert len(held.held_back) == 500


def test_lags_are_what_a_driver_could_write() -> None:
    lags = {"clicks": 4, "vi\x1bews": 1, "bad": "x", "less": -1, "huge": 2**70}
    report = read_report(json.dumps({"attempt": 1, "at": 1, "lags": lags}))
    assert report is not None
    assert list(report.lags.values()) == [4, 1]
    assert all(stream.isprintable() for stream in report.lags)
    many = read_report(json.dumps({"attempt": 1, "at": 1, "lags": {f"s{number}": number for number in range(200)}}))
    assert many is not None
    assert len(many.lags) == MOST_STREAMS
    for spoilt in (None, 5, "x", ["clicks"]):
        other = read_report(json.dumps({"attempt": 1, "at": 1, "lags": spoilt}))
        assert other is not None
        assert other.lags == {}


def rates_in(rows: object) -> RowRates | None:
    report = read_report(json.dumps({"attempt": 1, "at": 1, "rows": rows}))
    assert report is not None
    return report.rows


def test_rates_of_rows_are_what_a_driver_could_write() -> None:
    forged = {"clicks": 4, "vi\x1bews": 0.5, "bad": "x", "less": -1, "huge": 1e300, "true": True, "list": []}
    rates = rates_in({"read": forged, "written": {f"s{number}": number for number in range(200)}})
    assert rates is not None
    assert list(rates.read.values()) == [4.0, 0.5]
    assert all(stream.isprintable() for stream in rates.read)
    assert len(rates.written) == MOST_STREAMS
    assert rates_in({"read": 5, "written": None}) == RowRates()
    spoilt: tuple[object, ...] = (None, 5, "x", [], {})
    assert [rates_in(rows) for rows in spoilt] == [None] * len(spoilt)


def test_a_report_of_very_many_streams_stays_below_its_limit() -> None:
    names = [f"{'s' * 58}-{number:04}" for number in range(MOST_STREAMS)]
    rates = dict.fromkeys(names, 1.23e308)
    largest = dict.fromkeys(names, 2**63 - 1)
    sentence = "é" * 200
    report = DriverReport(1, 1, held_back=sentence, loading=sentence, lags=largest, rows=RowRates(rates, rates))
    assert len(report.text()) < 32_768


def test_a_processor_without_a_location_is_refused() -> None:
    text = HANDED.text().replace('"exec-1": "claim-1"', '"exec-2": "claim-1"')
    with pytest.raises(AssignmentInvalidError, match="location for each processor"):
        read_assignment(text)
