"""How many bytes of records a slot may read in one batch, from the memory that its Python process has.

A batch is in memory as a whole: as records, as rows, and as what is written of them. A slot that took more than it has
room for would be killed in each try of the batch, so the limit is small beside the memory. Where everything runs on one
host, nobody says how much of its memory the app may have, and a laptop's share is assumed. Must not ask the host.
"""

from holdfast.spec.runtime import beside_heap

_COPIES = 4
"""How many times the bytes of its records a batch has in memory, with some room."""
_ON_ONE_HOST = 256 << 20
_LEAST, _MOST = 16 << 20, 256 << 20


def bytes_per_slot(executors: int, cores: int, heap: str) -> int:
    """Return the limit; `executors`: 0 if everything runs on one host, `cores` and `heap`: of each."""
    if not executors:
        return max(_LEAST, _ON_ONE_HOST // cores)
    return min(max(beside_heap(heap) // cores // _COPIES, _LEAST), _MOST)
