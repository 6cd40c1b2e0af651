"""Lines of CSV, drawn: good in all forms of values, and damaged a little or much; and both ways to read them."""

import random
from collections.abc import Callable, Mapping

import pyarrow as pa

from holdfast_runtime.streams.codecs.csv.compiled_reader import CompiledLineReader
from holdfast_runtime.streams.codecs.csv.csv_format import CsvFormat
from holdfast_runtime.streams.codecs.csv.line_judge import LineJudge
from holdfast_runtime.streams.codecs.record_reader import RecordReader
from tests.codecs.json_objects import CELLS as JSON_CELLS
from tests.codecs.json_objects import mutated
from tests.codecs.poisoned_json import number, text
from tests.codecs.schemas import schema

FORMATS = (CsvFormat(), CsvFormat(";"), CsvFormat("\t", "NULL"), CsvFormat("|", "\\N"), CsvFormat(",", "0"))
DDL = (
    "a BIGINT, i INT, s SMALLINT, t TINYINT, c DOUBLE, h FLOAT, f BOOLEAN, b STRING, d TIMESTAMP, n TIMESTAMP_NTZ, "
    "g DATE, m DECIMAL(38,10), p DECIMAL(5,2), j BINARY, v VOID"
)
COLUMNS = schema(DDL)
TAILS = (*("", ".5", ".25") * 8, ".", ".000", ".125")
Draw = Callable[[random.Random], str]


def of_json(name: str) -> Draw:
    """What JSON has for a column, without the quotes."""
    return lambda draw: JSON_CELLS[name](draw).strip('"')


def decimal(digits: int) -> Draw:
    def cell(draw: random.Random) -> str:
        if draw.random() < 0.05:
            return number(draw)
        return f"{draw.choice(('', '-'))}{draw.randrange(10**digits)}{draw.choice(TAILS)}"

    return cell


def base64(draw: random.Random) -> str:
    if draw.random() < 0.05:
        return draw.choice(("AB==", "AAF=", "AA=A", "AAE", "AA-_", "=AAA", "A===", "AA==AAEC", "é"))
    return draw.choice(("AAE=", "AA==", "AAEC", "", "+/+/", "AAECAAE="))


CELLS: Mapping[str, Draw] = {
    **{name: of_json(name) for name in "aistchfbdng"},
    "m": decimal(28),
    "p": decimal(3),
    "j": base64,
    "v": lambda draw: "" if draw.random() < 0.9 else "x",
}


def line(draw: random.Random, written: CsvFormat) -> bytes:
    """A record; most are good."""
    fields = []
    for name in COLUMNS.names:
        field = CELLS[name](draw) if draw.random() < 0.99 else text(draw)
        if name == "v" or draw.random() < 0.15:
            field = written.null
        elif draw.random() < 0.3 or set(field) & {'"', written.delimiter, "\n", "\r"}:
            field = '"' + field.replace('"', '""') + '"'
        fields.append(field)
    return written.delimiter.join(fields).encode(errors="surrogatepass")


def damaged(draw: random.Random, written: CsvFormat) -> bytes:
    raw = mutated(draw, line(draw, written)) if draw.random() < 0.3 else line(draw, written)
    if draw.random() < 0.05:
        place = draw.randrange(len(raw) + 1)
        extra = draw.choice((b'"', b'""', b"\n", b"\r", b'"\n"', written.delimiter.encode(), b"\xef\xbb\xbf"))
        raw = raw[:place] + extra + raw[place:]
    return raw


def readers(columns: pa.Schema, written: CsvFormat) -> tuple[RecordReader, RecordReader]:
    """The reader that the product has, and the law alone."""
    judge, compiled = LineJudge(columns, written).read, CompiledLineReader.of(columns, written)
    assert compiled is not None, "csv_records.c is not built: `make setup`"
    return RecordReader(columns, judge, compiled), RecordReader(columns, judge, None)
