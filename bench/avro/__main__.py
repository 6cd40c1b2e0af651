"""How fast Avro records of a registry are read and written, beside what others do with the same records.

The same 200 000 records of six columns and about 70 bytes, rows per CPU second of the whole process, the median of
five runs. Rows and bytes are checked to be equal before a figure of ours or of fastavro is printed. Spark and Java are
warmed up first; Spark's figures are without the time it takes to have the rows.
"""

import json

import fastavro
import pyarrow as pa

from bench.avro.peers import of_kafka_streams, of_spark
from bench.avro.records import FRAME, SCHEMA, drawn_rows, read_by_fastavro, written_by_fastavro
from bench.avro.registry import OneRegistered
from bench.rates import check, report, show
from holdfast.planning.types.avro.columns import columns_of
from holdfast.planning.types.avro.reading import reading
from holdfast.planning.types.avro.schema import parse_avro
from holdfast.planning.types.avro.writing import writing
from holdfast_runtime.streams.codecs.avro import AvroCodec
from holdfast_runtime.streams.codecs.avro.avro_judge import AvroJudge
from holdfast_runtime.streams.codecs.avro.plain_writer import written_rows
from holdfast_runtime.streams.codecs.record_reader import judged_rows
from holdfast_runtime.streams.codecs.record_schemas import WrittenSchema

COUNT, FEW, TENTH = 200_000, 20, 20_000


def main() -> None:
    """Print the table."""
    pa.set_cpu_count(1)
    schema, parsed = parse_avro(json.dumps(SCHEMA)), fastavro.parse_schema(SCHEMA)
    values = pa.array([written_by_fastavro(parsed, row) for row in drawn_rows(COUNT)], pa.binary())
    columns = columns_of(schema)
    codec = AvroCodec(columns, OneRegistered(schema, FRAME), WrittenSchema(schema, FRAME))
    print(f"{len(values.buffers()[2]) / COUNT:.0f} bytes per record")
    print(f"{'way':<58} {'per CPU-s':>12}")
    rows = report("decode", COUNT, lambda: codec.decode(values).rows)
    few = [values.slice(first, FEW) for first in range(0, TENTH, FEW)]
    report(f"decode, {FEW} records at a time", TENTH, lambda: [codec.decode(part) for part in few])
    tenth, bad = values.slice(0, TENTH), pa.array([raw[:-1] for raw in values[:TENTH].to_pylist()], pa.binary())
    report("decode, all records damaged", TENTH, lambda: codec.decode(bad))
    judge = AvroJudge(reading(schema, columns).program)
    judged = report(
        "decode by the judge",
        TENTH,
        lambda: judged_rows([judge.read(raw[len(FRAME) :]) for raw in tenth.to_pylist()], codec.schema),
    )
    check(judged, rows.slice(0, TENTH))
    check(report("decode by fastavro", TENTH, lambda: read_by_fastavro(parsed, tenth, codec.schema)), judged)
    check(report("encode", COUNT, lambda: codec.encode(rows)), values)
    program = writing(schema, columns).program
    plain = report("encode by the plain writer", TENTH, lambda: written_rows(program, judged))
    check([FRAME + raw for raw in plain], tenth.to_pylist())
    by_fastavro = report(
        "encode by fastavro", TENTH, lambda: [written_by_fastavro(parsed, row) for row in judged.to_pylist()]
    )
    check(by_fastavro, tenth.to_pylist())
    for name, (decoded, encoded) in {
        "Avro's generic reader and writer in Java": of_kafka_streams(values),
        "Spark's from_avro and to_avro": of_spark(values),
    }.items():
        show(f"decode by {name}", decoded)
        show(f"encode by {name}", encoded)


if __name__ == "__main__":
    main()
