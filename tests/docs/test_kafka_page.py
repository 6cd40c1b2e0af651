"""The function on the page about Kafka decodes what a producer with a schema registry writes."""

import io
import struct
from typing import Any

import fastavro
import pyarrow as pa

from tests.docs.pages import ROOT, blocks_of

PAGE = ROOT / "docs" / "kafka.md"


def test_the_avro_function_reads_records_behind_their_schemas_id() -> None:
    (block,) = [block for block in blocks_of(PAGE) if "import fastavro" in block.text]
    namespace: dict[str, Any] = {}
    exec(compile(block.text, block.where, "exec"), namespace)  # noqa: S102 - our own page
    rows = [{"id": 1, "customer": "Ada"}, {"id": -(2**40), "customer": "Žofie"}]
    values = pa.array([written(row, namespace["SCHEMA"]) for row in rows], pa.binary())
    batch = pa.RecordBatch.from_arrays([values], ["value"])
    assert namespace["decode"](batch).to_pylist() == rows


def written(row: dict[str, Any], schema: Any) -> bytes:
    """As the registry's own serializers write it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    return struct.pack(">bI", 0, 7) + out.getvalue()
