"""`holdfast feed`, `tail` and `streams`: what is fed comes out, and every mistake is told with a way out."""

import base64
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.control.messages import MessageNumber, WatermarkMessage, encode
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.records import written_batch
from tests.cli.conftest import Holdfast
from tests.cli.fed_logs import CLICKS, MANY_KINDS, fed, lines, tailed
from tests.tasks.murmur2 import partition_of
from tests.waiting import patience

DEADLINE = patience(60.0)


def test_what_is_fed_comes_out_where_its_key_belongs(holdfast: Holdfast) -> None:
    ran = holdfast("feed", "app.yaml", "clicks", fed("clicks.jsonl", "\n" + lines(CLICKS) + "\n\n"))
    assert (ran.code, ran.out, ran.err) == (0, "40 records written to clicks (16 partitions)\n", "")
    records = tailed(holdfast, "app.yaml", "clicks", "--max", "40")
    assert sorted(records[0]) == ["key", "offset", "partition", "value"]
    assert sorted(record["value"]["user"] for record in records) == sorted(click["user"] for click in CLICKS)
    for record in records:
        assert record["key"] == record["value"]["ad_id"]
        assert record["partition"] == partition_of(record["key"].encode(), 16)
    for key in {record["key"] for record in records}:
        users = [record["value"]["user"] for record in records if record["key"] == key]
        assert users == [click["user"] for click in CLICKS if click["ad_id"] == key]


def test_the_value_is_the_line_byte_for_byte(holdfast: Holdfast) -> None:
    line = '{ "ad_id":"a", "user":  1.10, "ts":null }'
    holdfast("feed", "app.yaml", "clicks", fed("in", line))
    ran = holdfast("tail", "app.yaml", "clicks", "--from-beginning", "--max", "1", "-o", "json")
    partition = partition_of(b"a", 16)
    assert ran.out == f'{{"partition": {partition}, "offset": 0, "key": "a", "value": {line}}}\n'
    ran = holdfast("tail", "app.yaml", "clicks", "--from-beginning", "--max", "1")
    assert ran.out == f"clicks/{partition}\t0\ta\t{line}\n"


def test_a_bad_line_is_named_and_those_before_are_written(holdfast: Holdfast) -> None:
    text = lines(CLICKS[:3]) + '{"ad_id": \n' + lines(CLICKS[3:])
    ran = holdfast("feed", "app.yaml", "clicks", fed("in.jsonl", text))
    assert ran.code == 2
    assert "in.jsonl:4: not JSON: " in ran.err
    assert "the 3 records before this line were written, it and all after it were not" in ran.err
    assert len(tailed(holdfast, "app.yaml", "clicks", "--max", "3")) == 3


@pytest.mark.parametrize(
    ("stream", "line", "message"),
    [
        ("typed", b"[1]", "a line must be a JSON object, not list"),
        ("typed", b"\xff", "not UTF-8"),
        ("typed", b'{"num": NaN}', "NaN is not allowed"),
        ("typed", b"[" * 100_000, "recursion"),
        ("typed", b'{"num": "5"}', 'the key column num is BIGINT, but the line has "5"'),
        ("typed", b'{"num": 9223372036854775808}', "the key column num is BIGINT"),
        ("typed", b'{"num": true}', "the key column num is BIGINT, but the line has true"),
        ("texts", b'{"text": "x"}', 'a stream of format string takes objects with a text "value"'),
        ("blobs", b'{"value": "?"}', "in.jsonl:1: "),
    ],
)
def test_lines_that_can_not_be_records(holdfast: Holdfast, stream: str, line: bytes, message: str) -> None:
    fed("kinds.yaml", MANY_KINDS)
    ran = holdfast("feed", "kinds.yaml", stream, fed("in.jsonl", line + b"\n"))
    assert ran.code == 2
    assert message in ran.err
    assert "the 0 records before this line were written" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("feed", "kinds.yaml", "text", "in"), "kinds has no stream text; did you mean texts?"),
        (("tail", "kinds.yaml", "text"), "kinds has no stream text; did you mean texts?"),
        (("feed", "kinds.yaml", "rows", "in"), "stream rows is in a generator system"),
        (("tail", "kinds.yaml", "rows"), "stream rows is in a generator system"),
        (("feed", "kinds.yaml", "uncounted", "in"), "has no partition count; write partitions: N"),
        (("feed", "kinds.yaml", "texts", "nowhere"), "nowhere can't be read"),
        (("feed", "kinds.yaml", "texts", "."), ". is a directory"),
        (("feed", "app.yaml", "by-campaign", "in"), "written by the app itself; feed one of its inputs"),
        (("streams", "nowhere.yaml"), "nowhere.yaml can't be read"),
    ],
)
def test_mistakes_end_with_2_and_a_way_out(holdfast: Holdfast, arguments: tuple[str, ...], message: str) -> None:
    fed("kinds.yaml", MANY_KINDS)
    fed("in", "{}\n")
    ran = holdfast(*arguments)
    assert ran.code == 2
    assert message in ran.err


@pytest.mark.parametrize(
    "command", [("feed", "app.yaml", "clicks"), ("tail", "app.yaml", "clicks"), ("streams", "app.yaml")]
)
def test_an_invalid_app_is_explained(holdfast: Holdfast, command: tuple[str, ...]) -> None:
    fed("app.yaml", "kind: StreamApp\nmetadata: {name: x}\n")
    ran = holdfast(*command)
    assert ran.code == 1
    assert "apiVersion" in ran.err


def test_another_partition_count_than_the_log_has_is_refused(holdfast: Holdfast) -> None:
    app = Path("app.yaml").read_text(encoding="utf-8")
    holdfast("feed", "app.yaml", "campaigns", fed("in", '{"campaign": "c"}\n'))
    fed("app.yaml", app.replace("partitions: 4", "partitions: 5"))
    ran = holdfast("feed", "app.yaml", "campaigns", "in")
    assert ran.code == 2
    assert "campaigns has 4 partitions in .holdfast/ad-clicks/log, but 5 are wanted" in ran.err


def test_lines_of_csv_are_fed_and_tailed_as_objects(holdfast: Holdfast) -> None:
    fed("kinds.yaml", MANY_KINDS)
    rows = [{"num": 1, "s": 'a,"b"\n', "at": "2026-01-01T00:00:00.000Z"}, {"num": 2, "s": ""}, {"num": 3}]
    ran = holdfast("feed", "kinds.yaml", "lines", fed("in", lines(rows)))
    assert (ran.code, ran.err) == (0, "")
    assert [record["value"] for record in tailed(holdfast, "kinds.yaml", "lines", "--max", "3")] == rows
    where = ("--where", "s = ''", "--until-end")
    assert [record["key"] for record in tailed(holdfast, "kinds.yaml", "lines", *where)] == ["2"]
    ran = holdfast("feed", "kinds.yaml", "lines", fed("in", '{"num": 4, "s": 5}\n'))
    assert ran.code == 2
    assert "in:1: field s should be a string, found 5" in ran.err


def test_rows_of_a_csv_file_are_fed_by_name(holdfast: Holdfast) -> None:
    fed("kinds.yaml", MANY_KINDS)
    content = '\ufeffs,num\r\n"a,""b""",1\r\n\r\n"",2\n,3\n'
    ran = holdfast("feed", "kinds.yaml", "lines", fed("in.csv", content))
    assert (ran.code, ran.err) == (0, "")
    rows = [{"num": 1, "s": 'a,"b"'}, {"num": 2, "s": ""}, {"num": 3}]
    assert [record["value"] for record in tailed(holdfast, "kinds.yaml", "lines", "--max", "3")] == rows
    ran = holdfast("feed", "kinds.yaml", "typed", fed("in.CSV", "t,num,s\n2026-01-01T00:00:00Z,7,x\n,8,\n"))
    assert (ran.code, ran.err) == (0, "")
    typed = {record["key"]: record["value"] for record in tailed(holdfast, "kinds.yaml", "typed", "--max", "2")}
    assert typed == {'[7,"x"]': {"t": "2026-01-01T00:00:00.000Z", "num": 7, "s": "x"}, "[8,null]": {"num": 8}}
    ran = holdfast("feed", "kinds.yaml", "keyed", fed("in.csv", "user,value\nann,b\n"))
    assert (ran.code, ran.err) == (0, "")
    (keyed,) = tailed(holdfast, "kinds.yaml", "keyed", "--max", "1")
    assert (keyed["key"], keyed["value"]) == ("ann", "b")


@pytest.mark.parametrize(
    ("stream", "content", "why"),
    [
        ("lines", "1,a,\n", "in.csv:1: the first line names the columns, and has '1', which the stream has not"),
        ("lines", "num,S\n1,a\n", "has 'S', which the stream has not; did you mean s?"),
        ("lines", "num,num\n1,2\n", "has 'num', twice"),
        ("lines", 'num,"s\n1,2\n', "in.csv:1: the first line names the columns, and is no line of names: field 1"),
        ("lines", "\nnum,s\n1,2\n\n3\n4,5\n", "in.csv:5: the line has 1 field and the stream 2 columns: s is missing"),
        ("lines", "num,s\nx,2\n", "in.csv:2: field num should be a whole number of 64 bits"),
        ("nested", "a\nx\n", "column a is struct<id: int64>, which no field of a line holds"),
        ("blobs", "value\n?\n", "in.csv:2: field value should be base64"),
    ],
)
def test_rows_of_csv_that_do_not_fit_end_the_feed(holdfast: Holdfast, stream: str, content: str, why: str) -> None:
    fed("kinds.yaml", MANY_KINDS)
    ran = holdfast("feed", "kinds.yaml", stream, fed("in.csv", content))
    assert ran.code == 2
    assert why in ran.err


def test_what_moves_the_cursor_is_escaped_in_what_tail_shows(holdfast: Holdfast) -> None:
    fed("kinds.yaml", MANY_KINDS)
    holdfast("feed", "kinds.yaml", "texts", fed("in", json.dumps({"value": "a\x1b[2J\n\x9b"})))
    ran = holdfast("tail", "kinds.yaml", "texts", "--from-beginning", "--until-end")
    assert ran.out.split("\t")[2:] == ["a\\x1b[2J\\n\\x9b", '"a\\u001b[2J\\n\\u009b"\n']
    (record,) = tailed(holdfast, "kinds.yaml", "texts", "--until-end", "--key", "a\\x1b[2J\\n\\x9b")
    assert (record["key"], record["value"]) == ("a\x1b[2J\n\x9b", "a\x1b[2J\n\x9b")


def test_texts_and_bytes_are_fed_as_values(holdfast: Holdfast) -> None:
    fed("kinds.yaml", MANY_KINDS)
    holdfast("feed", "kinds.yaml", "texts", fed("in", '{"value": "plain text"}\n'))
    holdfast("feed", "kinds.yaml", "blobs", fed("in", json.dumps({"value": base64.b64encode(b"\xffx").decode()})))
    (text,) = tailed(holdfast, "kinds.yaml", "texts", "--max", "1")
    (blob,) = tailed(holdfast, "kinds.yaml", "blobs", "--max", "1")
    assert (text["key"], text["value"]) == ("plain text", "plain text")
    assert (blob["key"], blob["value"]) == (None, "\\xffx")


def test_keys_of_several_columns_and_records_without_key(holdfast: Holdfast) -> None:
    fed("kinds.yaml", MANY_KINDS)
    holdfast("feed", "kinds.yaml", "typed", fed("in", '{"num": 5, "s": "x"}\n{"s": 7}\n'))
    assert sorted(r["key"] for r in tailed(holdfast, "kinds.yaml", "typed", "--max", "2")) == ['[5,"x"]', '[null,"7"]']
    holdfast("feed", "kinds.yaml", "keyless", fed("in", '{"a": "1"}\n{"a": "2"}\n'))
    holdfast("feed", "kinds.yaml", "keyless", fed("in", '{"a": "3"}\n{"a": "4"}\n'))
    keyless = tailed(holdfast, "kinds.yaml", "keyless", "--max", "4")
    assert [(r["partition"], r["key"], r["value"]["a"]) for r in keyless] == [
        (0, None, "1"), (0, None, "4"), (1, None, "2"), (2, None, "3"),
    ]  # fmt: skip


def test_keys_inside_columns_and_keys_of_records_are_fed(holdfast: Holdfast) -> None:
    fed("kinds.yaml", MANY_KINDS)
    holdfast("feed", "kinds.yaml", "nested", fed("in", '{"a": {"id": 5}}\n{"a": null}\n'))
    holdfast("feed", "kinds.yaml", "keyed", fed("in", '{"user": "ann", "value": "hello"}\n'))
    nested = tailed(holdfast, "kinds.yaml", "nested", "--max", "2")
    assert sorted((str(r["key"]), str(r["value"]["a"])) for r in nested) == [("5", "{'id': 5}"), ("None", "None")]
    assert nested[0]["partition"] == partition_of(b"5", 3) or nested[1]["partition"] == partition_of(b"5", 3)
    (keyed,) = tailed(holdfast, "kinds.yaml", "keyed", "--max", "1")
    assert (keyed["key"], keyed["value"], keyed["partition"]) == ("ann", "hello", partition_of(b"ann", 3))


def test_control_messages_are_told_from_records(holdfast: Holdfast) -> None:
    fed("kinds.yaml", MANY_KINDS)
    holdfast("feed", "kinds.yaml", "marked", fed("in", '{"a": "x"}\n'))
    log = EmbeddedLog(Path(".holdfast/kinds/log"))
    message = encode(WatermarkMessage(5, MessageNumber(1, 0), "partition-0", 1))
    log.append(StreamPartition("marked", 0), written_batch([None, None], [message, None], 0))
    record, mark, null = tailed(holdfast, "kinds.yaml", "marked", "--max", "3")
    assert record["value"] == {"a": "x"}
    assert (mark["control"], mark["value"]["timestamp"]) == ("watermark", 5)
    assert (null["key"], null["value"]) == (None, None)


def test_streams_shows_what_each_holds(holdfast: Holdfast) -> None:
    holdfast("feed", "app.yaml", "clicks", fed("in", lines(CLICKS)), "--data", "elsewhere")
    ran = holdfast("streams", "app.yaml", "--data", "elsewhere")
    rows = [line.split() for line in ran.out.splitlines()]
    assert rows[0] == ["STREAM", "ROLE", "SYSTEM", "PARTITIONS", "OLDEST", "END", "RECORDS", "BYTES"]
    clicks = next(row for row in rows if row[0] == "clicks")
    assert clicks[1:5] == ["input", "log", "16", "0"]
    assert clicks[6] == "40"
    assert ["attributed", "output", "log", "8", "-", "-", "-", "-"] in rows
    tree = json.loads(holdfast("streams", "app.yaml", "-o", "json").out)
    assert {(stream["name"], stream["records"]) for stream in tree["streams"]} >= {("clicks", None)}


def test_without_the_runtime_the_cure_is_said(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lmdb", None)
    ran = holdfast("streams", "app.yaml")
    assert (ran.code, ran.err) == (
        2,
        "holdfast: the embedded log needs lmdb: in a checkout of Holdfast, pip install '.[runtime]'\n",
    )


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from holdfast_cli.main import entry; entry()", *arguments]


def test_a_tail_follows_a_piped_feed_until_ctrl_c(holdfast: Holdfast) -> None:
    assert holdfast("streams", "app.yaml").code == 0
    tail = subprocess.Popen(
        command("tail", "app.yaml", "clicks", "--from-beginning", "-o", "json"), stdout=subprocess.PIPE
    )
    feed = subprocess.Popen(command("feed", "app.yaml", "clicks"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert tail.stdout is not None
    assert feed.stdin is not None
    try:
        for click in CLICKS[:5]:  # each arrives before the next is fed: neither side waits for more
            feed.stdin.write(lines([click]).encode())
            feed.stdin.flush()
            assert json.loads(tail.stdout.readline())["value"] == click
        out, _ = feed.communicate(timeout=DEADLINE)
        assert out == b"5 records written to clicks (16 partitions)\n"
        tail.send_signal(signal.SIGINT)
        assert tail.wait(DEADLINE) == 0
    finally:
        for process in (feed, tail):
            process.kill()
            process.wait()
            for end in (process.stdin, process.stdout):
                if end is not None:
                    end.close()


def test_deletes_have_the_key_of_rows_and_no_value(holdfast: Holdfast) -> None:
    fed("kinds.yaml", MANY_KINDS)
    holdfast("feed", "kinds.yaml", "nested", fed("in", '{"a": {"id": 5}}\n{"a": {"id": 6}}\n'))
    ran = holdfast("feed", "kinds.yaml", "nested", fed("in", '{"a": {"id": 5}}\n'), "--delete")
    assert (ran.code, ran.out) == (0, "1 delete written to nested (3 partitions)\n")
    *_, last = of_key = tailed(holdfast, "kinds.yaml", "nested", "--until-end", "--key", "5")
    assert (len(of_key), last["value"], last["partition"]) == (2, None, of_key[0]["partition"])


@pytest.mark.parametrize(
    ("stream", "line", "message"),
    [
        (
            "typed",
            {"num": 1, "s": "x", "t": None},
            "in:1: a delete has the key columns alone (num, s), and the line has t",
        ),
        ("typed", {"num": 1}, "in:1: a delete needs a value for each key column (num, s)"),
        ("typed", {"num": "1", "s": "x"}, "in:1: the key column num is BIGINT"),
        ("keyless", {"a": "1"}, "--delete: stream keyless has no deletes, as its records have no key"),
        ("marked", {"a": "1"}, "--delete: stream marked has no deletes, as its records carry control messages"),
        ("sink", {"value": "1"}, "stream sink is written by the app itself; feed one of its inputs"),
    ],
)
def test_lines_that_delete_nothing(holdfast: Holdfast, stream: str, line: dict[str, Any], message: str) -> None:
    fed("kinds.yaml", MANY_KINDS)
    ran = holdfast("feed", "kinds.yaml", stream, fed("in", lines([line])), "--delete")
    assert ran.code == 2
    assert message in ran.err


@pytest.mark.usefixtures("holdfast")
def test_an_app_without_kafka_loads_no_client() -> None:
    fed("in", lines(CLICKS[:1]))
    program = (
        "import sys; from holdfast_cli.main import main; app = 'app.yaml'; "
        "main(['feed', app, 'clicks', 'in']); main(['tail', app, 'clicks', '--until-end', '--where', 'ad_id = 1']); "
        "main(['streams', app]); sys.exit('confluent_kafka' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=DEADLINE, check=False).returncode == 0


def test_many_lines_are_fed_in_batches(holdfast: Holdfast) -> None:
    rows = [{"campaign": f"c{i}", "owner": "o"} for i in range(25_000)]
    started = time.monotonic()
    ran = holdfast("feed", "app.yaml", "campaigns", fed("in", lines(rows)))
    assert ran.out == "25000 records written to campaigns (4 partitions)\n"
    assert time.monotonic() - started < DEADLINE
    records = tailed(holdfast, "app.yaml", "campaigns", "--max", "25000")
    assert {record["key"] for record in records} == {row["campaign"] for row in rows}
    assert [path.name for path in Path(".holdfast").iterdir()] == ["ad-clicks"]
