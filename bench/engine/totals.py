"""The stateful function of the benchmark, once, so that no engine runs another one than the others.

Must not know an engine, and needs nothing but Python: it is imported by workers.
"""

from collections.abc import Iterable


def added(before: tuple[int, int] | None, amounts: Iterable[int]) -> tuple[int, int]:
    """Rows and sum of a key after some more rows."""
    rows, total = before or (0, 0)
    for amount in amounts:
        rows += 1
        total += amount
    return rows, total
