"""Why: the one place where the runtime looks at the clock; everything else is told the time.

Must not be imported by steps, or by anything that a replay must repeat.
"""

import time


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
