"""Text and bytes: rows come back, bad records are named, nothing raises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.streams.codecs import (
    BinaryCodec,
    Codec,
    JsonCodec,
    SchemaUnsupportedError,
    StringCodec,
    codec_for,
)
from tests.codecs.schemas import batch, binary, schema

COLUMNS = schema("a INT, b STRING, d TIMESTAMP, e STRUCT<x: ARRAY<INT>>")
TEXT, BYTES = schema("value STRING"), schema("value BINARY")


@given(st.lists(st.none() | st.binary(max_size=6) | st.text(max_size=6).map(str.encode), max_size=20))
def test_text_is_what_is_utf8_and_bytes_are_all(values: list[bytes | None]) -> None:
    def is_text(raw: bytes) -> bool:
        return raw == raw.decode(errors="ignore").encode()

    text, raw = StringCodec(TEXT).decode(binary(*values)), BinaryCodec(BYTES).decode(binary(*values))
    assert text.good.tolist() == [at for at, value in enumerate(values) if value is not None and is_text(value)]
    assert [bad.index for bad in text.bad] == [
        at for at, value in enumerate(values) if value is not None and not is_text(value)
    ]
    assert raw.rows.column(0).to_pylist() == [value for value in values if value is not None]
    assert np.array_equal(text.nulls, raw.nulls)
    assert StringCodec(TEXT).encode(text.rows).to_pylist() == [values[at] for at in text.good.tolist()]


@pytest.mark.parametrize("codec", [StringCodec(TEXT), BinaryCodec(BYTES)])
def test_a_null_value_is_written_as_a_null_record(codec: Codec) -> None:
    assert codec.encode(batch(codec.schema, [{"value": None}])).to_pylist() == [None]


def test_each_format_has_its_codec_and_its_columns() -> None:
    assert isinstance(codec_for("json", COLUMNS), JsonCodec)
    assert isinstance(codec_for("binary", BYTES), BinaryCodec)
    with pytest.raises(SchemaUnsupportedError, match='format string has the schema "value STRING" and no other'):
        codec_for("string", BYTES)
