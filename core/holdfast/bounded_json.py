"""JSON that somebody else wrote, read only if it is small and shallow enough to be read cheaply.

A parser of nested text recurses, and what it makes takes many times the memory of the text. Both are bounded by looking
at the bytes first: brackets outside of strings, counted up and down in C. A megabyte takes some milliseconds, whatever
is in it. Must not know what the JSON means.
"""

import json
import re
from array import array
from itertools import accumulate

MOST_BYTES = 1 << 20
"""An object of Kubernetes has at most some 1.5 MB, a ConfigMap 1 MiB of data."""
MOST_LEVELS = 64
"""Deeper than anything that is written by hand or by us; a parser takes a thousand."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Up or, as a signed byte, down."""
_BEGINS = (b"[", b"{", b",")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class JsonTooBigError(ValueError):
    """A text that is not read, because of its length or depth."""


def load(text: bytes | str, *, most_bytes: int = MOST_BYTES, most_levels: int = MOST_LEVELS) -> object:
    """What the text says; a `ValueError` where it is no JSON, or more than it may be."""
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    check(data, most_bytes=most_bytes, most_levels=most_levels)
    return json.loads(data)


def check(text: bytes, *, most_bytes: int, most_levels: int, most_values: int | None = None) -> None:
    """Raise `JsonTooBigError` where the text is longer, deeper or made of more values than it may be."""
    if len(text) > most_bytes:
        message = f"it has {len(text)} bytes, and at most {most_bytes} are read"
        raise JsonTooBigError(message)
    bare = _STRING.sub(b"", text)
    if most_values is not None and sum(map(bare.count, _BEGINS)) > most_values:
        message = f"it has more than {most_values} values"
        raise JsonTooBigError(message)
    if _levels(bare) > most_levels:
        message = f"it is nested deeper than {most_levels} levels"
        raise JsonTooBigError(message)


def _levels(bare: bytes) -> int:
    return max(accumulate(array("b", bare.translate(_STEPS, _NO_BRACKETS))), default=0)
