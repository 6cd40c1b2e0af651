"""The compiled loops of row_loops.c, and their absence.

Without a C compiler at install time, or with a library of another version, `loops()` is None and callers take their
twins in numpy, which give the same bits and are two to fifteen times slower. HOLDFAST_PLAIN_LOOPS=1 does so on purpose.
Must not know what the numbers mean.
"""

import ctypes
import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

LOOPS_VERSION = 2
LIBRARY = Path(__file__).with_name("row_loops.so")

_POINTER = ctypes.c_void_p
_COUNT = ctypes.c_int64
_ARGUMENTS = {
    "holdfast_hash_words": (_POINTER, _POINTER, _POINTER, _COUNT),
    "holdfast_hash_bytes": (_POINTER, _POINTER, _POINTER, _POINTER, _COUNT),
    "holdfast_order": (_POINTER, _COUNT, _POINTER, _POINTER, _POINTER, _POINTER),
    "holdfast_find": (_POINTER, _COUNT, _POINTER, _COUNT, _POINTER, _POINTER),
    "holdfast_places": (_POINTER, _POINTER, _POINTER, _COUNT, _POINTER, _COUNT, _POINTER, _POINTER),
    "holdfast_equal_bytes": (_POINTER, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER, _COUNT, _POINTER),
}


@functools.cache
def loops() -> ctypes.CDLL | None:
    """Return the library, or None if there is none of this version."""
    return compiled(LIBRARY, LOOPS_VERSION, _ARGUMENTS)


def compiled(path: Path, version: int, arguments: Mapping[str, tuple[Any, ...]]) -> ctypes.CDLL | None:
    """Return a library of functions that return nothing, or None if there is none of this version."""
    if os.environ.get("HOLDFAST_PLAIN_LOOPS") == "1":
        return None
    try:
        library = ctypes.CDLL(str(path))
        if library.holdfast_loops_version() != version:
            return None
    except (OSError, AttributeError):
        return None
    for name, types in arguments.items():
        function = getattr(library, name)
        function.argtypes, function.restype = types, None
    return library


def address(array: "npt.NDArray[Any] | None") -> int | None:
    """Return the memory address of an array, or None of none; it must be contiguous, and outlive the call of a loop."""
    if array is None:
        return None
    assert array.flags.c_contiguous  # noqa: S101 - a loop would read beside it
    return int(array.ctypes.data)


def contiguous(array: "npt.NDArray[Any]", kind: type[np.generic]) -> "npt.NDArray[Any]":
    """Return the array with elements of this kind and contiguous, as loops take arrays."""
    return np.ascontiguousarray(array, dtype=kind)
