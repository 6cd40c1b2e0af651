"""Why: event times travel as timestamps of records, but Kafka knows only those after 1970, and takes 0 for "now".

Others, and "none", become times far in the future, which topics that Holdfast makes accept. Must not touch others.
"""

import numpy as np
import pyarrow as pa

from holdfast_runtime.streams.records import NO_TIME

_FUTURE = 2**62
_NONE = 2**63 - 1


def kafka_times(times: pa.Array) -> pa.Array:
    """As they are written; milliseconds since 1970."""
    values = times.to_numpy()
    if not len(values) or values.min() > 0:
        return times
    odd = values <= 0
    turned = np.where(values == NO_TIME, _NONE, _FUTURE - np.where(values == NO_TIME, 0, values))
    return pa.array(np.where(odd, turned, values))


def event_times(times: pa.Array) -> pa.Array:
    """As they were meant."""
    values = times.to_numpy()
    if not len(values) or values.max() < _FUTURE:
        return times
    turned = np.where(values == _NONE, NO_TIME, _FUTURE - values)
    return pa.array(np.where(values >= _FUTURE, turned, values))
