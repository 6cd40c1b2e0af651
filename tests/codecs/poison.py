"""Poison: records of every format, mutated in what is known to hurt, and what must hold for each of them.

A program of its own, since what it looks for may end its process: `python -m tests.codecs.poison RECORDS SEED`.
"""

import json
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from holdfast_runtime.steps.keyed.row_dicts import result_rows, row_dicts
from holdfast_runtime.streams.codecs import Codec, JsonCodec, StringCodec, codec_for, event_times
from tests.codecs.schemas import binary, schema

COLUMNS = schema(
    "a INT, b STRING, c DOUBLE, d TIMESTAMP, e STRUCT<x: ARRAY<INT>, y: DECIMAL(38,18), z: ARRAY<TIMESTAMP>>, "
    "f BOOLEAN, g DATE, h FLOAT, i TIMESTAMP_NTZ, j BINARY, k DECIMAL(10,2), l DECIMAL(38,0), m BIGINT, n DECIMAL(3,3)"
)
MAPPED = schema("a INT, k DECIMAL(10,2), d TIMESTAMP, m MAP<STRING, STRUCT<y: DECIMAL(38,18), g: DATE>>")
WITHOUT_TIMES = schema("a INT, k DECIMAL(20,4), c DOUBLE, b STRING")
BATCH = 60
MOST_MEMORY = 2 << 30
LONGEST_ALONE = 2.0
"""Seconds that one record may take."""
Make = Callable[[random.Random], bytes | None]


@dataclass(frozen=True)
class Kind:
    """Records of one format and schema."""

    share: int
    codec: Callable[[], Codec]
    make: Make


def digits(draw: random.Random) -> str:
    count = draw.choice((1, 1, 2, 3, 5, 8, 18, 19, 20, 21, 22, 29, 37, 38, 39, 47, 48, 49, 60, 77, 120, 400))
    return draw.choice(("0", "9", "1", "")) * draw.randrange(count) + str(draw.randrange(10**count))


def number(draw: random.Random) -> str:
    """What is lexically a number, or nearly."""
    text = draw.choice(("", "", "", "-", "+")) + digits(draw)
    if draw.random() < 0.5:
        text += "." + draw.choice(("", "0" * draw.randrange(90), "00", "")) + digits(draw)
    if draw.random() < 0.4:
        power = draw.choice((0, 1, 5, 9, 10, 28, 29, 30, 31, 38, 39, 41, 76, 77, 80, 99, 308, 400, 2**31, 999999999))
        text += draw.choice("eE") + draw.choice(("", "+", "-", "-", "-")) + draw.choice(("", "0", "00")) + str(power)
    return text


def moment(draw: random.Random) -> str:
    year = draw.choice((-1, 0, 1, 2, 1969, 1970, 2024, 9999, 10000, 99999, draw.randrange(12000)))
    text = f"{year:04d}-{draw.randrange(14):02d}-{draw.randrange(33):02d}"
    if draw.random() < 0.8:
        text += draw.choice("T  t_") + f"{draw.randrange(26):02d}:{draw.randrange(62):02d}"
        text += draw.choice(("", f":{draw.randrange(62):02d}"))
        text += draw.choice(("", "", ".", "." + str(draw.randrange(10 ** draw.randrange(1, 13)))))
        text += draw.choice(("", "Z", "Z", "z", "+01:00", "-2359", "+24:00", "+99", " UTC", "+00:00"))
    return text


TEXTS = (
    "NaN", "Infinity", "-INF", "Inf", "AAE=", "AA", "", "x", "é\U0001f600", "1_0", " 1", "0x10", "1e", ".", "\x7f",
    "null", "true", "2024-02-29", "123e4567-e89b-12d3-a456-426614174000",
)  # fmt: skip


def text(draw: random.Random) -> str:
    return draw.choice((moment(draw), moment(draw), number(draw), *TEXTS))


def quoted(draw: random.Random) -> str:
    """A string of JSON, with some characters written in other ways."""
    raw = json.dumps(text(draw), ensure_ascii=draw.random() < 0.5)[1:-1]
    if draw.random() < 0.15:
        raw = "".join(f"\\u{ord(one):04x}" if draw.random() < 0.4 and one.isalnum() else one for one in raw)
    if draw.random() < 0.05:
        raw += draw.choice(("\\ud800", "\\udc00\\ud800", "\\u0000", "\\", "\n", "\t", "\0", "\\x41", "\\/"))
    return f'"{raw}"'


def value(draw: random.Random, depth: int = 0) -> str:
    """Any JSON value, or what is none."""
    roll = draw.random()
    if roll < 0.35:
        return number(draw)
    if roll < 0.65:
        return quoted(draw)
    if roll < 0.85 or depth > 3:
        return draw.choice(
            (
                "null",
                "true",
                "false",
                "NaN",
                "Infinity",
                "-Infinity",
                "Inf",
                "-Inf",
                "{}",
                "[]",
                "nul",
                "1 2",
                "",
                "'x'",
            )
        )
    if roll < 0.93:
        return "[" + ",".join(value(draw, depth + 1) for _ in range(draw.randrange(4))) + "]"
    return members(draw, "xyzgab", depth + 1)


def members(draw: random.Random, names: str, depth: int = 0) -> str:
    pairs = (f'"{draw.choice(names)}":{fitting(draw) if draw.random() < 0.3 else value(draw, depth)}' for _ in range(4))
    return "{" + draw.choice((",", ",", ", ", " ,\n")).join(list(pairs)[: draw.randrange(5)]) + "}"


FITTING = (
    "1", "12.5", "-0", "0.001", "null", '"2024-01-31T12:00:00.5Z"', '"2024-01-31"', "1700000000000", "1700000000000000",
    "253402300799999", "253402300800000", "-62135596800000", "-62135596800001", '{"x":[1,null]}', '{"y":"1.5"}',
    '{"z":["2024-01-31T00:00:00Z",1700000000000]}', '"AAE="', "1e-05", "99999999.99", "1.0e2", '"0000-12-31"',
    '"0000-01-01T00:00:00Z"', '"9999-12-31T23:59:59.999999Z"', '{"z":[1700000000000000]}',
)  # fmt: skip
"""Values that fit many columns."""


def fitting(draw: random.Random) -> str:
    return draw.choice(FITTING)


def of_json(names: str) -> Make:
    def make(draw: random.Random) -> bytes | None:
        roll = draw.random()
        if roll < 0.01:
            return None
        if roll < 0.02:
            depth = draw.choice((399, 400, 401, 900, 1100, 20_000))
            opened = draw.choice(("[", '{"a":'))
            closed = "]" if opened == "[" else "}"
            return f'{{"q":{opened * depth}1{closed * depth}}}'.encode()
        if roll < 0.025:
            return f'{{"{draw.choice(names)}":{draw.choice("19")}{draw.choice("05") * 100_000}}}'.encode()
        if roll < 0.03:
            return f'{{"{"k" * 100_000}":1,"a":1}}'.encode()
        raw = members(draw, names + "q").encode(errors="surrogatepass")
        if roll < 0.2:
            raw = damaged(draw, raw)
        return raw

    return make


def damaged(draw: random.Random, raw: bytes) -> bytes:
    """Some bytes flipped, left out, put in or doubled."""
    content = bytearray(raw)
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(content) + 1)
        match draw.randrange(5):
            case 0:
                content[at : at + 1] = bytes([draw.randrange(256)])
            case 1:
                del content[at : at + draw.randrange(1, 4)]
            case 2:
                content[at:at] = draw.choice(
                    (b"{", b"}", b'"', b",", b":", b"\\", b"\xff", b"\0", b"\xed\xa0\x80", b"e-99")
                )
            case 3:
                content[at:at] = content[: draw.randrange(len(content) + 1)]
            case _:
                del content[at:]
    return bytes(content)


def of_text(draw: random.Random) -> bytes | None:
    if draw.random() < 0.05:
        return None
    raw = text(draw).encode()
    return damaged(draw, raw) if draw.random() < 0.5 else raw


KINDS = {
    "json": Kind(60, lambda: codec_for("json", COLUMNS), of_json("abcdefghijklmn")),
    "json, without times": Kind(15, lambda: codec_for("json", WITHOUT_TIMES), of_json("akcb")),
    "json, with a map": Kind(15, lambda: codec_for("json", MAPPED), of_json("akdm")),
    "string": Kind(10, lambda: StringCodec(schema("value STRING")), of_text),
}


def fed(values: list[bytes | None], codec: Codec, single_codec: Codec) -> Counter[str]:
    """Decode these records together and one by one; what must hold is asserted."""
    together = codec.decode(binary(*values))
    together.rows.validate(full=True)
    assert together.rows.schema.equals(codec.schema)
    rows = row_dicts(together.rows)
    bad = {one.index: one.reason for one in together.bad}
    outcome = Counter({"bad": len(bad), "null": len(together.nulls)})
    at = 0
    for index, raw in enumerate(values):
        began = time.monotonic()
        single = single_codec.decode(binary(raw))
        took = time.monotonic() - began
        assert took < LONGEST_ALONE, f"{took} s for {shown(raw)}"
        assert (index in bad) == bool(single.bad), f"alone {single.bad}, among others {bad.get(index)}: {shown(raw)}"
        assert (index in together.nulls) == (raw is None)
        record_rows = rows[at : at + single.rows.num_rows]
        at += single.rows.num_rows
        if single.rows.num_rows:
            assert repr(row_dicts(single.rows)) == repr(record_rows), (
                f"{row_dicts(single.rows)} alone, {record_rows} else: {shown(raw)}"
            )
            outcome["good"] += 1
            if isinstance(codec, JsonCodec):
                numbers_are_as_python_reads_them(raw or b"", record_rows[0])
    assert at == len(rows)
    taken_by_every_step(together.rows, rows, codec)
    return outcome


def numbers_are_as_python_reads_them(raw: bytes, row: dict[str, Any]) -> None:
    """Python's `decimal` is the oracle: a good number is exactly what the record says."""
    try:
        document = json.loads(raw, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return
    for name, cell in row.items():
        if isinstance(cell, Decimal):
            assert cell == Decimal(document[name]), f"{name} came out as {cell}: {shown(raw)}"


def taken_by_every_step(rows: pa.RecordBatch, dicts: list[dict[str, Any]], codec: Codec) -> None:
    """Functions get values of Python's types, may give them back, and the rows can be written and read again."""
    again = result_rows(dicts, rows.schema)
    assert isinstance(again, pa.RecordBatch), again
    assert repr(again.to_pylist()) == repr(rows.to_pylist())
    for field in rows.schema:
        if pa.types.is_timestamp(field.type):
            event_times(rows, field.name)
            kinds = {type(one[field.name]) for one in dicts}
            assert kinds <= {datetime, type(None)}, kinds
    back = codec.decode(codec.encode(rows))
    assert not back.bad
    assert repr(row_dicts(back.rows)) == repr(dicts)


def shown(raw: bytes | None) -> str:
    content = repr(raw)
    return content if len(content) < 600 else f"{content[:600]}... ({len(content)} characters)"


def main(records: int, seed: int) -> None:
    """Feed so many; say what became of them."""
    draw = random.Random(seed)  # noqa: S311 - to be drawn again
    for name, kind in KINDS.items():
        codec, single_codec, outcome = kind.codec(), kind.codec(), Counter[str]()
        for _ in range(max(1, records * kind.share // 100 // BATCH)):
            values = [kind.make(draw) for _ in range(BATCH)]
            if draw.random() < 0.2:
                # So many that the fast way reads blocks of good ones.
                values += [b"{}"] * 200 if name.startswith("json") else []
            outcome += fed(values, codec, single_codec)
        sys.stdout.write(f"{name}: {dict(outcome)}\n")
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert used < MOST_MEMORY, f"{used >> 20} MiB"


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
