"""`holdfast tail` of what one wants: up to the end, of a key, under a condition."""

from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.control.messages import MessageNumber, WatermarkMessage, encode
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.records import OffsetRange, written_batch
from tests.cli.conftest import Holdfast
from tests.cli.fed_logs import CLICKS, MANY_KINDS, fed, lines, tailed


def test_a_tail_until_the_end_prints_what_is_there(holdfast: Holdfast) -> None:
    holdfast("feed", "app.yaml", "clicks", fed("in", lines(CLICKS)))
    records = tailed(holdfast, "app.yaml", "clicks", "--until-end")
    assert sorted(record["value"]["user"] for record in records) == sorted(click["user"] for click in CLICKS)
    ran = holdfast("tail", "app.yaml", "clicks", "--from-beginning", "--until-end")
    assert (ran.code, len(ran.out.splitlines())) == (0, 40)
    assert len(tailed(holdfast, "app.yaml", "clicks", "--until-end", "--max", "7")) == 7


def test_a_tail_until_the_end_that_begins_there_prints_nothing(holdfast: Holdfast) -> None:
    holdfast("feed", "app.yaml", "clicks", fed("in", lines(CLICKS)))
    ran = holdfast("tail", "app.yaml", "clicks", "--until-end")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_a_tail_until_the_end_of_an_unfed_stream_ends(holdfast: Holdfast) -> None:
    assert tailed(holdfast, "app.yaml", "clicks", "--until-end") == []


def test_a_tail_until_the_end_ends_though_records_keep_coming(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed("kinds.yaml", MANY_KINDS)
    holdfast("feed", "kinds.yaml", "marked", fed("in", '{"a": "x"}\n'))
    fetched = EmbeddedLog.fetch

    def fed_meanwhile(log: EmbeddedLog, offset_range: OffsetRange) -> pa.RecordBatch:
        log.append(StreamPartition("marked", 0), written_batch([None], [b"{}"], 0))
        return fetched(log, offset_range)

    monkeypatch.setattr(EmbeddedLog, "fetch", fed_meanwhile)
    assert [record["offset"] for record in tailed(holdfast, "kinds.yaml", "marked", "--until-end")] == [0]


def test_a_tail_from_the_end_until_the_end_is_refused(holdfast: Holdfast) -> None:
    ran = holdfast("tail", "app.yaml", "clicks", "--until-end", "--max", "5")
    assert (ran.code, ran.out) == (2, "")
    assert "add --from-beginning, or leave out --until-end" in ran.err


def amounts_of(holdfast: Holdfast, *options: str) -> list[int]:
    return sorted(record["value"]["num"] for record in tailed(holdfast, "kinds.yaml", "typed", "--until-end", *options))


def test_a_tail_of_a_key_or_condition(holdfast: Holdfast) -> None:
    fed("kinds.yaml", MANY_KINDS)
    rows = [{"num": n, "s": "ab"[n % 2], "t": f"2026-01-0{n}T00:00:00Z"} for n in range(1, 9)]
    holdfast("feed", "kinds.yaml", "typed", fed("in", lines(rows)))
    assert amounts_of(holdfast, "--key", '[3,"b"]') == [3]
    assert amounts_of(holdfast, "--where", "num > 3 AND s = 'a'") == [4, 6, 8]
    assert amounts_of(holdfast, "--where", "t < timestamp '2026-01-03 00:00:00' or num % 4 = 0") == [1, 2, 4, 8]
    assert len(amounts_of(holdfast, "--where", "num > 3", "--max", "2")) == 2
    assert amounts_of(holdfast, "--where", "num > 3", "--key", '[3,"b"]') == []


def test_records_that_a_condition_fails_on_are_counted(holdfast: Holdfast) -> None:
    fed("kinds.yaml", MANY_KINDS)
    holdfast("feed", "kinds.yaml", "typed", fed("in", '{"num": 0, "s": "x"}\n{"num": 2, "s": "x"}\n{"s": "x"}\n'))
    log = EmbeddedLog(Path(".holdfast/kinds/log"))
    log.append(StreamPartition("typed", 0), written_batch([None, None], [b"{", None], 0))
    ran = holdfast("tail", "kinds.yaml", "typed", "--from-beginning", "--until-end", "--where", "10 % num = 0")
    assert (ran.code, len(ran.out.splitlines())) == (0, 1)
    assert ran.err.startswith("holdfast: 2 records left out, as --where can't be computed: the first is typed/")


def test_conditions_look_into_metadata_and_user_records(holdfast: Holdfast) -> None:
    fed("kinds.yaml", MANY_KINDS)
    holdfast("feed", "kinds.yaml", "keyed", fed("in", '{"user": "ann", "value": "x"}\n{"user": "bob", "value": "x"}\n'))
    holdfast("feed", "kinds.yaml", "marked", fed("in", '{"a": "x"}\n{"a": "y"}\n'))
    log = EmbeddedLog(Path(".holdfast/kinds/log"))
    message = encode(WatermarkMessage(5, MessageNumber(1, 0), "partition-0", 1))
    log.append(StreamPartition("marked", 0), written_batch([None], [message], 0))
    shown = [
        tailed(holdfast, "kinds.yaml", stream, "--until-end", "--where", where)
        for stream, where in (("keyed", "user = 'ann'"), ("marked", "a = 'y'"))
    ]
    assert [[record["key"] for record in records] for records in shown] == [["ann"], ["y"]]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("nmu = 1", "--where: there is no column nmu; did you mean num? (columns: num, s, t)"),
        ("num", "gives BIGINT; a filter needs true or false"),
        ("num >", "--where: "),
        ("count(*) > 1", "a filter judges each row alone"),
        ("sha2(s, 256) = 'x'", "--where: sha2(s, 256) = 'x' is not plain: only Spark computes it"),
    ],
)
def test_conditions_that_can_not_be_computed(holdfast: Holdfast, where: str, message: str) -> None:
    fed("kinds.yaml", MANY_KINDS)
    ran = holdfast("tail", "kinds.yaml", "typed", "--until-end", "--where", where)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


@pytest.mark.parametrize(
    ("column", "code", "error"),
    [
        ("parse_url(a, 'HOST')", 0, ""),
        ("from_json(a, a)", 2, "the columns of stream sink are not known before the app runs"),
    ],
)
def test_a_condition_needs_columns_that_are_known(holdfast: Holdfast, column: str, code: int, error: str) -> None:
    select = f'{{name: all, from: [keyless], select: ["{column} AS host"]}}'
    fed(
        "kinds.yaml",
        MANY_KINDS.replace("{name: all, from: [texts], to: sink}", select + "\n  - {name: o, from: [all], to: sink}"),
    )
    ran = holdfast("tail", "kinds.yaml", "sink", "--until-end", "--where", "host = 'x'")
    assert ran.code == code
    assert error in ran.err
