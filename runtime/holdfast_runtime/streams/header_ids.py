"""Records of a registry that have the ids of their schemas in headers, as producers can be told: they are bad.

Their values begin with no id, so that one would be read out of the first bytes of a row, and their keys would be other
keys. Must not decode.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.streams.codecs.codec import BadRecord, DecodedBatch

VALUE_ID, KEY_ID = "__value_schema_id", "__key_schema_id"
_SETTINGS = {VALUE_ID: ("value", "value.schema.id.serializer"), KEY_ID: ("key", "key.schema.id.serializer")}


def without_header_ids(decoded: DecodedBatch, records: pa.RecordBatch, names: Sequence[str]) -> DecodedBatch:
    """Return what was decoded of records, of which those with one of these headers are bad."""
    if "headers" not in records.schema.names:
        return decoded
    headers = records.column("headers")
    places, keys = pc.list_parent_indices(headers).to_numpy(), headers.flatten().field("key")
    faults: dict[int, str] = {}
    for name in names:
        has_name = pc.equal(keys, name).fill_null(False)  # noqa: FBT003 - Arrow's own
        indices = np.unique(places[has_name.to_numpy(zero_copy_only=False)])
        if name == VALUE_ID:
            indices = indices[records.column("value").take(pa.array(indices)).is_valid().to_numpy(zero_copy_only=False)]
        for index in indices.tolist():
            faults.setdefault(index, _fault(name))
    if not faults:
        return decoded
    keep = ~np.isin(decoded.good, list(faults))
    other_faults = [record for record in decoded.bad if record.index not in faults]
    bad = [*other_faults, *(BadRecord(index, fault) for index, fault in faults.items())]
    return replace(
        decoded,
        rows=decoded.rows.filter(pa.array(keep)),
        good=decoded.good[keep],
        bad=tuple(sorted(bad, key=lambda record: record.index)),
    )


def _fault(name: str) -> str:
    part, setting = _SETTINGS[name]
    return (
        f"the id of its {part}'s schema is in the header {name}, and is read before the {part} alone: set {setting} of "
        "the producer, or of its converter, to io.confluent.kafka.serializers.schema.id.PrefixSchemaIdSerializer; "
        "JSON with such headers is format: json"
    )
