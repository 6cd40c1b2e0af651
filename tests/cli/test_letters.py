"""`holdfast letters`: dead letters are shown, grouped, and their records put back once."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.driver.put_back import PutBackObstacle, PutBackRecord, PutBackStream, decide_put_back
from holdfast_runtime.inspection.dead_letters import DeadLetter, LetterFilter, LetterOrigin
from holdfast_runtime.inspection.letter_groups import letter_groups, reason_pattern
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog, close_all
from holdfast_runtime.streams.log.put_back import put_back, times_put_back
from holdfast_runtime.streams.records import OffsetBounds, OffsetRange, written_batch
from holdfast_runtime.testing import TestDriver
from tests.cli.conftest import Holdfast
from tests.engine.totals import app, orders

DATA = Path(".holdfast/totals")
ORDERS = StreamPartition("orders", 1)
READ = PutBackStream("orders", None, 0, {1: OffsetBounds(2, 10)})
STRICT = """
def total(customer, rows, state):
    for row in rows:
        if row["amount"] < 0:
            raise ValueError(f"a negative amount: {row['amount']}")
        yield {"customer": customer, "n": row["n"], "total": row["amount"]}
"""
LENIENT = STRICT.replace("< 0", "< -5")
FOREIGN = (b'{"customer": "customer-0", "n": "x"}', b'{\n"c": "\x1b[31m\xe2\x80\xae"', b"\xff\x00")


def strict(code: str = STRICT) -> dict[str, Any]:
    tree = app(code=code, onDecodeError="DeadLetter", deadLetter="unreadable")
    tree["spec"]["steps"][0] |= {"onError": "DeadLetter", "deadLetter": "unreadable"}
    return tree


def driven(code: str = STRICT) -> TestDriver:
    """The next attempt of the app, after commands, which open streams in another way."""
    close_all()
    return TestDriver(strict(code), DATA)


@pytest.fixture
def failed(holdfast: Holdfast) -> Holdfast:
    """The command, in a folder where an app has written six letters: of three records and of three rows."""
    Path("totals.json").write_text(json.dumps(strict()), encoding="utf-8")
    with driven() as driver:
        driver.feed("orders", orders(0, 1))
        driver.feed_bytes("orders", FOREIGN, key=b"customer-0")
        driver.feed("orders", orders(4, 8, amount=-3))
        driver.feed("orders", orders(12, amount=-7))
        driver.run_until_idle()
    return holdfast


def listed(holdfast: Holdfast, *options: str) -> list[dict[str, Any]]:
    ran = holdfast("letters", "totals.json", "-o", "json", *options)
    assert ran.code == 0
    return [json.loads(line) for line in ran.out.splitlines()]


def letter(offset: int | None = 5, *, put_back: int = 0, written: int = 7, **origin: Any) -> DeadLetter:
    about = LetterOrigin(**{"stream": "orders", "partition": 1, "offset": offset, **origin})
    return DeadLetter(StreamPartition("failed", 0), 0, written, "why", about, None, None, put_back=put_back)


@pytest.mark.parametrize(
    ("reason", "pattern"),
    [
        ('field n should be a whole number, found "x\\"y"', "field n should be a whole number, found '...'"),
        ("ValueError: -3 of 1,200.50 at code.py:12", "ValueError: N of N at code.py:N"),
        ("it can't take 'a' and isn't 'b'", "it can't take '...' and isn't '...'"),
        ("KeyError: customer-17 in int64 of v2", "KeyError: customer-N in int64 of v2"),
        ("2026-01-01T00:05:00.000Z is behind 2026-01-02", "N is behind N"),
        ("no 123e4567-e89b-12d3-a456-426614174000, not UTF-8: 0xff", "no N, not UTF-8: N"),
        ("the column `price` is 1e5, 3-4, 12ms", "the column `price` is N, N-N, Nms"),
        ("a quote ' alone, and \" too", "a quote ' alone, and \" too"),
    ],
)
def test_what_varies_in_a_reason_is_taken_out(reason: str, pattern: str) -> None:
    assert reason_pattern(reason) == pattern


def test_groups_have_one_origin_and_the_largest_comes_first() -> None:
    of_column, later, earlier = letter(step="s", column="c"), letter(6, written=9), letter(7, written=3)
    largest, other = letter_groups([of_column, later, earlier])
    assert (largest.count, largest.first, largest.last, largest.example) == (2, 3, 9, later)
    assert (largest.origin, other.origin) == (LetterOrigin("orders"), LetterOrigin("orders", step="s", column="c"))


@pytest.mark.parametrize("source", ["orders", "failed", "matched", None])
def test_a_source_is_a_stream_step_or_dead_letter_stream(source: str | None) -> None:
    assert LetterFilter(source).takes(letter(step="matched.left"))
    assert not LetterFilter("match").takes(letter(step="matched.left"))


@pytest.mark.parametrize(
    ("put_aside", "stream", "obstacle"),
    [
        (letter(), READ, None),
        (letter(None), READ, PutBackObstacle.NO_RECORD),
        (letter(stream=None), READ, PutBackObstacle.NO_RECORD),
        (letter(stream="elsewhere"), READ, PutBackObstacle.NOT_AN_INPUT),
        (letter(), PutBackStream("topic", PutBackObstacle.GENERATED), PutBackObstacle.GENERATED),
        (letter(), PutBackStream("orders", None, 8, READ.bounds), PutBackObstacle.CREATED_AGAIN),
        (letter(1), READ, PutBackObstacle.GONE),
        (letter(10), READ, PutBackObstacle.GONE),
        (letter(partition=2), READ, PutBackObstacle.GONE),
        (letter(put_back=1), READ, PutBackObstacle.DONE),
    ],
)
def test_why_a_letter_is_left_out(
    put_aside: DeadLetter, stream: PutBackStream, obstacle: PutBackObstacle | None
) -> None:
    plan = decide_put_back([put_aside], {"orders": stream}, again=False)
    assert [why for why, _ in plan.left_out] == ([] if obstacle is None else [obstacle])
    assert plan.count == (obstacle is None)


def test_again_puts_back_once_more_and_a_record_once() -> None:
    plan = decide_put_back([letter(put_back=1), letter(put_back=1, step="s")], {"orders": READ}, again=True)
    assert plan.records == {ORDERS: {5: PutBackRecord(2)}}
    assert plan.left_out == {(PutBackObstacle.SAME_RECORD, "stream orders"): 1}


def test_records_that_only_offsets_tell_apart_are_counted() -> None:
    undecoded = replace(letter(6), key=b"k", timestamp=3_000)
    kafka = PutBackStream("topic", created=None, bounds=READ.bounds)
    plan = decide_put_back([letter(step="s"), undecoded], {"orders": kafka}, again=False)
    assert plan.records == {ORDERS: {5: PutBackRecord(1), 6: PutBackRecord(1, b"k", 3_000)}}
    assert (plan.by_offset, decide_put_back([letter()], {"orders": READ}, again=False).by_offset) == (1, 0)


def test_records_are_put_back_as_they_were_and_once(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path)
    log.ensure("orders", 2, now=0)
    log.append(ORDERS, written_batch([b"a", None, b"c"] * 9_000, [b"1", None, b""] * 9_000, range(27_000)))
    times = dict.fromkeys((0, 1, 2, 15_000, 26_999), 1)
    assert [put_back(log, ORDERS, times), put_back(log, ORDERS, {**times, 7: 1})] == [5, 1]
    assert put_back(log, ORDERS, {0: 2}) == 1
    assert times_put_back(log, "orders")[ORDERS] == {**times, 7: 1, 0: 2}
    stored = log.fetch(OffsetRange(ORDERS, 0, 27_007)).to_pylist()
    copies = [{**record, "offset": None} for record in stored[27_000:]]
    assert copies == [{**stored[offset], "offset": None} for offset in (0, 1, 2, 15_000, 26_999, 7, 0)]


def test_letters_are_shown_the_newest_last(failed: Holdfast) -> None:
    ran = failed("letters", "totals.json", "-n", "4")
    blocks = ran.out.split("unreadable/0 offset ")[1:]
    assert [block.split()[0] for block in blocks] == ["2", "3", "4", "5"]
    assert blocks[3].splitlines()[1:] == [
        "  reason  ValueError: a negative amount: -7 at runtime.code.totals:5",
        "  from    orders/1 offset 7, step summed",
        "  key     customer-0",
        '  value   {"customer":"customer-0","n":12,"amount":-7}',
    ]
    assert ran.err == "holdfast: the newest 4 of 6 letters; -n 6 shows all\n"


def test_foreign_bytes_can_not_move_the_cursor(failed: Holdfast) -> None:
    ran = failed("letters", "totals.json")
    assert r'value   {\n"c": "\x1b[31m\u202e"' in ran.out
    assert "value   ff 00 (2 bytes, no text)" in ran.out
    for output in ("text", "json"):
        assert failed("letters", "totals.json", "-o", output).out.replace("\n", "").isprintable()


def test_letters_are_json_lines_with_all_they_hold(failed: Holdfast) -> None:
    unread, broken, binary, of_step, *_ = listed(failed)
    assert unread == {
        "deadLetter": {"stream": "unreadable", "partition": 0, "offset": 0},
        "written": "2026-01-01T00:00:00.000Z",
        "reason": 'field n should be a whole number of 64 bits, found "x"',
        "origin": {"stream": "orders", "partition": 1, "offset": 2, "step": None, "column": None},
        "key": "customer-0",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "headers": [],
        "putBack": 0,
        "value": {"customer": "customer-0", "n": "x"},
    }
    assert (broken["value"], binary["value"]) == (FOREIGN[1].decode(), "base64:/wA=")
    assert (of_step["origin"]["step"], of_step["value"]["amount"]) == ("summed", -3)


def test_groups_are_counted_with_an_example(failed: Holdfast) -> None:
    groups = listed(failed, "--group")
    assert [(group["letters"], group["origin"]["step"]) for group in groups][:1] == [(3, "summed")]
    assert groups[0]["reason"] == "ValueError: a negative amount: N at runtime.code.totals:N"
    assert groups[0]["example"] == {"stream": "unreadable", "partition": 0, "offset": 5}
    ran = failed("letters", "totals.json", "--group", "-n", "1")
    assert [line.split()[0] for line in ran.out.splitlines()] == ["LETTERS", "3"]
    assert ran.err == "holdfast: 1 of 4 groups; -n 4 shows all\n"


def test_corrected_code_gets_what_was_put_back_once(failed: Holdfast) -> None:
    command = ("letters", "totals.json", "--stream", "summed", "--put-back")
    refused = failed(*command)
    assert (refused.code, "add --yes" in refused.err) == (1, True)
    assert "orders/1         3" in refused.out
    assert [failed(*command, "--yes").out.splitlines()[-1] for _ in range(2)] == [
        "3 records put back",
        "0 records put back",
    ]
    assert [shown["putBack"] for shown in listed(failed)] == [0, 0, 0, 1, 1, 1]
    with driven(LENIENT) as driver:
        driver.run_until_idle()
        assert sorted(row["n"] for row in driver.rows("totals")) == [0, 1, 4, 8]
        # What fails again is another letter, about the record that was put back.
        assert [row["offset"] for row in driver.rows("unreadable")][6:] == [10]
    left_out = failed(*command, "--yes")
    assert "left out: 3 letters of stream orders: put back before" in left_out.out
    assert left_out.out.splitlines()[-1] == "1 record put back"


def test_records_of_any_bytes_are_put_back(failed: Holdfast) -> None:
    ran = failed("letters", "totals.json", "--offset", "2", "--put-back", "--yes", "-o", "json")
    tree = json.loads(ran.out)
    assert (ran.code, tree["written"], tree["leftOut"]) == (0, 1, [])
    (partition,) = tree["partitions"]
    with driven() as driver:
        original, copy = (record for record in driver.records("orders") if record.value == FOREIGN[2])
        assert (copy.key, copy.partition, copy.timestamp) == (original.key, original.partition, original.timestamp)
        assert partition == {"partition": f"orders/{original.partition}", "offsets": [original.offset]}


def test_a_record_that_is_no_letter_hides_no_other(failed: Holdfast) -> None:
    log, unreadable = EmbeddedLog(DATA / "log"), StreamPartition("unreadable", 0)
    log.append(unreadable, written_batch([b"k"] * 3, [b"{}", None, b"?"], 2**62))
    assert [shown["key"] for shown in listed(failed, "-n", "4")] == ["customer-0", "k", "k", "k"]
    ran = failed("letters", "totals.json", "--put-back", "--reason", "no dead letter")
    assert "left out: 3 letters of unreadable/0: a step made the row" in ran.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--stream", "order"), "totals has no stream and no step order; did you mean orders?"),
        (("--put-back", "-n", "3"), "leave out -n"),
        (("--yes",), "--again and --yes are for --put-back"),
        (("--group", "--put-back"), "not allowed with argument"),
    ],
)
def test_mistakes_end_with_2_and_a_cure(failed: Holdfast, arguments: tuple[str, ...], message: str) -> None:
    ran = failed("letters", "totals.json", *arguments)
    assert ran.code == 2
    assert message in ran.err


def test_an_app_without_dead_letters_says_how_to_get_them(holdfast: Holdfast) -> None:
    Path("totals.json").write_text(json.dumps(app()), encoding="utf-8")
    ran = holdfast("letters", "totals.json")
    assert ran.code == 2
    assert "totals has no stream for dead letters: set onDecodeError" in ran.err


def test_an_app_that_never_ran_has_no_letters(holdfast: Holdfast) -> None:
    Path("totals.json").write_text(json.dumps(strict()), encoding="utf-8")
    ran = holdfast("letters", "totals.json")
    assert (ran.code, ran.out, ran.err) == (0, "", "holdfast: there are no such dead letters\n")
    assert holdfast("letters", "totals.json", "--put-back").out == "0 records put back\n"
