"""How many bytes of records a slot may read in one batch, from the memory that its Python process has.

A batch is in memory as a whole: as records, as rows, and as what is written of them. A slot that took more than it has
room for would be killed in each try of the batch, so the limit is small beside the memory. Where everything runs on one
host, nobody says how much of its memory the app may have, and a laptop's share is assumed. Must not ask the host.
"""

from holdfast.spec.values import as_spark

_COPIES = 4
"""How many times the bytes of its records a batch has in memory, with some room."""
_PYTHON_SHARE, _LEAST_OF_PYTHON = 0.4, 384 << 20
"""The memory of an executor beside its heap, which is for its slots: as the operator sizes pods."""
_ON_ONE_HOST = 256 << 20
_LEAST, _MOST = 16 << 20, 256 << 20
_SHIFTS = {"k": 10, "m": 20, "g": 30, "t": 40}


def bytes_per_slot(executors: int, cores: int, heap: str) -> int:
    """Return the limit; `executors`: 0 if everything runs on one host, `cores` and `heap`: of each."""
    if not executors:
        return max(_LEAST, _ON_ONE_HOST // cores)
    text = as_spark(heap)
    python = max(int(_PYTHON_SHARE * (int(text[:-1]) << _SHIFTS[text[-1]])), _LEAST_OF_PYTHON)
    return min(max(python // cores // _COPIES, _LEAST), _MOST)
