"""Damaged lines of CSV: what the compiled reader takes is what the judge reads, whatever stands beside it.

`HOLDFAST_SEED` draws other records, `HOLDFAST_MUTATED` more of them; `make soak` does both.
"""

import random

import pyarrow as pa

from tests.codecs.avro.test_mutated import BLOCK, RECORDS, SEED
from tests.codecs.csv.lines import COLUMNS, FORMATS, damaged, readers
from tests.codecs.schemas import binary


def test_damaged_lines_are_read_as_the_law_says() -> None:
    draw = random.Random(SEED)  # noqa: S311
    count = refused = doubted = 0
    for block in range(RECORDS // 2 // BLOCK):
        written = FORMATS[block % len(FORMATS)]
        reader, law = readers(COLUMNS, written)
        values = [damaged(draw, written) for _ in range(BLOCK)]
        array: pa.BinaryArray = binary(b"before", *values, b"behind").slice(1, len(values))
        read, judged = reader.read(array, 0), law.read(array, 0)
        message = f"HOLDFAST_SEED={SEED}"
        read.rows.validate(full=True)
        assert read.bad == judged.bad, message
        assert read.good.tolist() == judged.good.tolist(), message
        assert repr(read.rows.to_pylist()) == repr(judged.rows.to_pylist()), message
        count, refused = count + len(values), refused + len(read.bad)
        doubted += len(reader._compiled.read(array, 0).doubtful)  # type: ignore[union-attr]  # noqa: SLF001
    assert 0.1 < refused / count < 0.6
    assert doubted / count < 0.8
