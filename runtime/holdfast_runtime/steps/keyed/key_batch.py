"""What the function of a `process` step with `form: Batch` gets besides rows and states: which rows belong to a key.

Rows of one key lie beside each other, in their order. Must not know where states are kept.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast_runtime.functions import Tables

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeyBatch:
    """The keys of the rows of one call."""

    keys: pa.Int64Array
    """For each row, the index of its key in the states."""
    firsts: pa.Int64Array
    """For each key, the index of its first row."""
    lasts: pa.Int64Array
    """For each key, the index of its last row."""
    late: pa.BooleanArray
    """For each row, whether it is late."""
    now: int
    """Processing time of the batch in milliseconds since 1970; a replay sees the same."""
    tables: Tables
    """The tables that the step names."""

    @classmethod
    def of(cls, starts: Indices, late: pa.BooleanArray, now: int, tables: Tables) -> "KeyBatch":
        """`starts`: the index of the first row of each key."""
        ends = np.append(starts[1:], len(late))
        keys = pa.array(np.repeat(np.arange(len(starts)), ends - starts))
        return cls(keys, pa.array(starts), pa.array(ends - 1), late, now, tables)

    def before(self, values: pa.Array, states: pa.Array) -> pa.Array:
        """Return for each row the value of the row before it with its key; for the first one, that of the state."""
        values, states = whole_column(values), whole_column(states)
        if states.type != values.type:
            states = states.cast(values.type)
        indices = np.arange(-1, len(values) - 1)
        indices[self.firsts.to_numpy()] = np.arange(len(values), len(values) + len(states))
        return pa.concat_arrays([values, states]).take(pa.array(indices))

    def last(self, values: pa.Array) -> pa.Array:
        """Return for each key the value of its last row."""
        return whole_column(values).take(self.lasts)


def whole_column(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
