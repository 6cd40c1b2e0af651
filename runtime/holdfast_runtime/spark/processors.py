"""Why: an executor's id lives as long as its process, a processor's name as long as its disk.

A pod that dies comes back under the same name as another executor. Must not import Spark.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor that is registered with Spark."""

    id: str
    place: str
    """By what a slot asks for it."""
    pod: str | None = None
    """Its pod, where it said which."""

    @property
    def processor(self) -> str:
        """By what assignments know it."""
        return self.pod or self.id


def by_processor(executors: Iterable[Executor]) -> dict[str, str]:
    """Processor -> where it is. Of two executors in one pod, Spark has not yet missed the older one."""
    return {one.processor: one.place for one in sorted(executors, key=_age)}


def _age(executor: Executor) -> tuple[int, str]:
    """Spark counts executors up."""
    return (int(executor.id) if executor.id.isdigit() else -1, executor.id)
