"""How rates of codecs are measured and shown: rows per CPU second of the whole process, the median of five runs."""

import statistics
import time
from collections.abc import Callable
from typing import Any

RUNS = 5


def show(name: str, rate: float) -> None:
    """Print one row."""
    print(f"{name:<58} {rate:>12,.0f}")


def report(name: str, count: int, way: Callable[[], Any]) -> Any:
    """Measure a way and print its row; returns what it made."""
    cpu = []
    for _ in range(RUNS):
        used = time.process_time()
        made = way()
        cpu.append(time.process_time() - used)
    show(name, count / max(1e-9, statistics.median(cpu)))
    return made


def check(made: object, expected: object) -> None:
    """No figure for a way that makes something else."""
    if made != expected:
        message = "two ways read or write different records"
        raise ValueError(message)
