"""Why: PySpark translates only the first of a chain of Java's exceptions, and what matters often is the last.

Must not judge them.
"""

from collections.abc import Iterator
from typing import Any


def java_causes(error: BaseException) -> Iterator[Any]:
    """Java's exception behind one of Python, and its causes; nothing where Java raised nothing."""
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        yield cause
        cause = cause.getCause()
