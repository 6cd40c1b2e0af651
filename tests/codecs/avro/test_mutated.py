"""Damaged records of a schema with all types: the loop in C reads those that the judge reads, and as it reads them.

`HOLDFAST_SEED` draws other records, `HOLDFAST_MUTATED` more of them; `make soak` does both.
"""

import os
import random
import secrets
from typing import Any

import pytest

from holdfast.planning.types.avro.columns import columns_of
from holdfast.planning.types.avro.reading import reading
from holdfast.planning.types.spark_types import RowType
from holdfast_runtime.streams.codecs.arrow_types import arrow_schema
from holdfast_runtime.streams.codecs.avro.avro_judge import AvroJudge
from holdfast_runtime.streams.codecs.avro.compiled_reader import CompiledReader
from tests.codecs.avro.records import bare_rows, by_fastavro, parsed, record_schema
from tests.codecs.avro.test_drawn import judged
from tests.codecs.schemas import binary

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
RECORDS = int(os.environ.get("HOLDFAST_MUTATED", "1000000" if SOAK else "20000"))
SEED = int(os.environ.get("HOLDFAST_SEED", str(secrets.randbits(32)) if SOAK else "20261128"))
BLOCK = 500
INNER = record_schema(x=["null", "int"], y={"type": "fixed", "name": "Two", "size": 2}) | {"name": "Inner"}
TREE = record_schema(
    i="int",
    s=["null", "string"],
    f="float",
    d="double",
    t={"type": "long", "logicalType": "timestamp-millis"},
    n={"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
    b="boolean",
    e={"type": "enum", "name": "E", "symbols": ["A", "B", "C"]},
    l={"type": "array", "items": ["null", "string"]},
    m={"type": "map", "values": {"type": "array", "items": "long"}},
    r=["null", INNER],
    z={"type": "array", "items": "Inner"},
)


def record(draw: random.Random) -> dict[str, Any]:
    def word() -> str:
        return "".join(draw.choices("abc \0é€\U0001f600"[: draw.choice((4, 8))], k=draw.randrange(12)))

    def inner() -> dict[str, Any]:
        return {"x": draw.choice((None, draw.randrange(-99, 99))), "y": b"yy"}

    return {
        "i": draw.randrange(-(1 << 31), 1 << 31) >> draw.randrange(31),
        "s": draw.choice((None, word())),
        "f": draw.choice((0.5, float("nan"), -0.0)),
        "d": draw.uniform(-9, 9),
        "t": draw.randrange(253_402_300_800_000),
        "n": draw.randrange(10**20).to_bytes(9, "big"),
        "b": draw.random() < 0.5,
        "e": draw.choice("ABC"),
        "l": [draw.choice((None, word())) for _ in range(draw.randrange(4))],
        "m": {word(): [draw.getrandbits(60) for _ in range(draw.randrange(3))] for _ in range(draw.randrange(3))},
        "r": draw.choice((None, inner())),
        "z": [inner() for _ in range(draw.randrange(3))],
    }


def mutated(draw: random.Random, raw: bytes) -> bytes:
    content = bytearray(raw)
    for _ in range(draw.choice((0, 1, 1, 1, 2, 4))):
        place, length = draw.randrange(len(content) + 1), draw.choice((1, 1, 2, 5))
        part = content[place : place + length]
        match draw.randrange(6):
            case 0 | 1 if part:
                content[place] ^= 1 << draw.randrange(8)
            case 2:
                del content[place : place + length]
            case 3:
                content[place:place] = part
            case 4:
                content[place : place + length] = draw.randbytes(length)
            case 5 if draw.random() < 0.3:
                del content[place:]
    return bytes(content)


@pytest.mark.parametrize("every", [1, 2])
def test_damaged_records_are_read_as_the_judge_reads_them(every: int) -> None:
    draw = random.Random(SEED + every)  # noqa: S311
    columns = RowType(columns_of(parsed(TREE)).columns[::every])
    program, schema = reading(parsed(TREE), columns).program, arrow_schema(columns)
    reader, judge, records_read = CompiledReader.of(program, schema), AvroJudge(program), 0
    assert reader is not None, "avro_records.c is not built: `make setup`"
    originals = by_fastavro(TREE, *(record(draw) for _ in range(BLOCK))).to_pylist()
    for _ in range(RECORDS // 2 // BLOCK):
        values = [mutated(draw, raw) for raw in originals]
        array = binary(b"before", *values).slice(1)
        undoubted = reader.read(array, 0)
        rows, bad = judged(judge, array, schema)
        message = f"HOLDFAST_SEED={SEED}"
        assert undoubted.doubtful.tolist() == bad, message
        assert repr(bare_rows(undoubted.rows)) == repr(bare_rows(rows)), message
        records_read += rows.num_rows
    assert records_read > RECORDS // 8
