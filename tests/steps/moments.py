"""Drawn event times of rows: in microseconds, often at a whole millisecond or just beside one, where the edges are."""

from hypothesis import strategies as st

from holdfast.times import MICROS_PER_MILLI, micros

_BEYOND = st.sampled_from([0, 0, 0, 1, 400, 999]) | st.integers(0, MICROS_PER_MILLI - 1)


def moments(first: int, last: int) -> st.SearchStrategy[int]:
    """Event times in these milliseconds."""
    return st.builds(lambda millis, beyond: micros(millis) + beyond, st.integers(first, last), _BEYOND)
