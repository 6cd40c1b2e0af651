"""Ends of a partition among the messages that a client gives out. No broker: the messages are made here."""

import ctypes
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.streams.kafka.client.errors import END_OF_PARTITION
from holdfast_runtime.streams.kafka.client.librdkafka import Functions, Library, Message, library
from holdfast_runtime.streams.kafka.read.consumer import without_ends

RECORD, END, REFUSED = 0, END_OF_PARTITION, -185
_DESTROY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Noting:
    """The library, with a function that notes what is destroyed in place of the client's."""

    def __init__(self, real: Library) -> None:
        self.destroyed: list[int] = []
        self.loops = real.loops
        self._noted = _DESTROY(self.destroyed.append)
        self.functions = Functions(destroy=ctypes.cast(self._noted, ctypes.c_void_p))


@given(st.lists(st.sampled_from([RECORD, RECORD, END, REFUSED]), max_size=12))
def test_ends_behind_which_something_follows_are_taken_out(codes: list[int]) -> None:
    real = library()
    if real is None:
        pytest.fail("the compiled loops of gather.c are missing: make setup")
    noting, messages = _Noting(real), [Message(err=code) for code in codes]
    addresses = [ctypes.addressof(message) for message in messages]
    messages_given = np.array(addresses, np.int64)
    left = without_ends(cast("Library", noting), messages_given)
    staying = [at for at, code in enumerate(codes) if code != END or at == len(codes) - 1]
    assert messages_given[:left].tolist() == [addresses[at] for at in staying]
    assert noting.destroyed == [addresses[at] for at, code in enumerate(codes) if at not in staying]
