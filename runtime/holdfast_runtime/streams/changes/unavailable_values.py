"""Where a column holds what Debezium writes for a large value that the database's log does not have.

It is a text, in the form that the type of the column and the settings of the connector give it: bytes, base64, the only
element of an array, a number for each of its bytes. As a value it would be stored. Must not know records.
"""

import base64
import uuid
from functools import reduce
from hashlib import md5

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.streams.codecs.arrow_types import compact

UNAVAILABLE = "__debezium_unavailable_value"
_BYTES = UNAVAILABLE.encode()
_UUID = str(uuid.UUID(bytes=md5(_BYTES, usedforsecurity=False).digest(), version=3))
_TEXTS = pa.array(
    [
        UNAVAILABLE,
        base64.b64encode(_BYTES).decode(),
        _BYTES.hex(),
        f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}',
        _UUID,
    ]
)
_NUMBERS = np.frombuffer(_BYTES, np.uint8).astype(np.float64)
Mask = npt.NDArray[np.bool_]


def unavailable(column: pa.Array) -> Mask:
    """Return where a value is none."""
    kind = column.type
    if pa.types.is_string(kind):
        return _mask(pc.is_in(column, _TEXTS))
    if pa.types.is_binary(kind):
        return _mask(pc.equal(column, _BYTES))
    if pa.types.is_struct(kind):
        return reduce(np.logical_or, map(unavailable, column.flatten()), np.zeros(len(column), bool))
    if pa.types.is_map(kind):
        return _around(column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))))
    return _around(column) if pa.types.is_list(kind) else np.zeros(len(column), bool)


def _around(lists: pa.ListArray) -> Mask:
    """Return which lists hold it."""
    lists = compact(lists)
    elements, parents = lists.flatten(), pc.list_parent_indices(lists).to_numpy()
    mask = np.zeros(len(lists), bool)
    if pa.types.is_integer(elements.type) or pa.types.is_floating(elements.type):
        sizes = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
        long_enough = (sizes == len(_NUMBERS))[parents]
        rows = elements.filter(pa.array(long_enough)).cast(pa.float64(), safe=False).fill_null(0).to_numpy()
        mask[sizes == len(_NUMBERS)] = (rows.reshape(-1, len(_NUMBERS)) == _NUMBERS).all(axis=1)
    else:
        mask[parents[unavailable(elements)]] = True
    return mask


def _mask(column: pa.BooleanArray) -> Mask:
    return np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)  # noqa: FBT003 - Arrow's own
