"""Which JSON records pyarrow must not read decimals from, found by a look at their bytes.

Where the digits behind the point, less the exponent, are more than 76 away from the scale of a DECIMAL, pyarrow 26
looks up a power of ten behind the end of its table: 1e-999999999 ends the process, 1e-80 is whatever lies there. What
may be such a number is rare and is read by Python. Must let through nothing that could be one, however it is written;
what is taken for one and is none only costs time.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Places = np.ndarray[Any, np.dtype[np.int64]]
Truths = np.ndarray[Any, np.dtype[np.bool_]]

PIECE = 1 << 18
"""What numpy makes of so many bytes stays in the processor's cache: twice as fast as all at once."""
STRIDE = 16
"""A run of 48 digits has three in a row of each 16th byte. So 47 digits stand behind a point at most, and with an
exponent down to -29 that makes 76."""
OVERLAP = 3 * STRIDE
_E, _MINUS, _POINT, _ZERO, _THREE, _BACKSLASH, _U = (ord(one) for one in "e-.03\\u")
_AROUND = np.isin(np.arange(256), list(b'":,[]{} \t\n'))
"""For each byte, whether it may stand before or behind a number."""
_AHEAD = np.arange(1, 16)
_CASE = ord("a") ^ ord("A")
_IN_NUMBERS = {f"{ord(one):04x}".encode() for one in "0123456789eE-.+"}


def holds(text: Bytes, char: str) -> bool:
    """Whether a character of ASCII is anywhere in it."""
    return any((piece == ord(char)).any() for piece in _pieces(text))


def risky_decimals(text: Bytes) -> bool:
    """Whether there may be a number in it that is too far from any scale."""
    return any(_long_run(piece) or _small(piece) or _escaped(piece) for piece in _pieces(text))


def _small(text: Bytes) -> bool:
    """An exponent of -30 or less, or of more than two digits."""
    signs = text[1:-3] == _MINUS
    signs &= (text[:-4] | _CASE) == _E
    if not signs.any():
        return False
    at = np.flatnonzero(signs) + 1
    before, first, second, third = (_digits(text[at + ahead]) for ahead in (-2, 1, 2, 3))
    before |= text[at - 2] == _POINT
    at = at[before & first & second & (third | (text[at + 1] >= _THREE))]
    return any(_begins(text[max(0, place - 2 * OVERLAP) : place - 1].tobytes()) for place in _ending(text, at).tolist())


def _ending(text: Bytes, at: Places) -> Places:
    """Those of these signs whose digits can end a number: ids have an `e-` among digits, too."""
    behind = text[np.minimum(at[:, None] + _AHEAD, len(text) - 1)]
    first = behind[np.arange(len(at)), np.argmin(_digits(behind), axis=1)]
    kept: Places = at[_AROUND[first] | _digits(first)]
    return kept


def _begins(before: bytes) -> bool:
    """Whether a number can begin with the digits that this ends with."""
    head = before.rstrip(b"0123456789.")
    head = head[:-1] if head.endswith((b"+", b"-")) else head
    return not head or bool(_AROUND[head[-1]])


def _long_run(text: Bytes) -> bool:
    every = _digits(text[::STRIDE])
    at = np.flatnonzero(every[:-2] & every[1:-1] & every[2:]) * STRIDE
    for ahead in range(1, 2 * STRIDE):
        if not len(at):
            return False
        at = at[_digits(text[at + ahead])]
    return len(at) > 0


def _escaped(text: Bytes) -> bool:
    r"""A character of a number written as `\u0065`, which no encoder does of itself."""
    slashes = text[:-5] == _BACKSLASH
    if not slashes.any():
        return False
    at = np.flatnonzero(slashes)
    at = at[(text[at + 1] == _U) & (text[at + 2] == _ZERO) & (text[at + 3] == _ZERO)]
    return any(text[place + 2 : place + 6].tobytes().lower() in _IN_NUMBERS for place in at.tolist())


def _pieces(text: Bytes) -> Iterator[Bytes]:
    """Each with a little of the next one, so that nothing is cut in two everywhere."""
    return (text[start : start + PIECE + OVERLAP] for start in range(0, len(text), PIECE))


def _digits(text: Bytes) -> Truths:
    return (text - _ZERO) < 10  # noqa: PLR2004 - what lies below 0 comes out above 9
