"""Texts in upper and in lower case, as Spark 4.3 writes them: by Unicode 17 and no language's rules of its own.

Arrow has one letter for each, where ß in upper case is SS. Python has all of Unicode's rules, for the letters that its
version knows: those that came later stand here. Texts beyond ASCII are read once for each that a batch has.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_PAIRS = (
    *((0x1C89, 0x1C8A, 1), (0xA7CB, 0x264, 1), (0xA7CC, 0xA7CD, 1), (0xA7CE, 0xA7CF, 1), (0xA7D2, 0xA7D3, 1)),
    *((0xA7D4, 0xA7D5, 1), (0xA7DA, 0xA7DB, 1), (0xA7DC, 0x19B, 1), (0x10D50, 0x10D70, 22), (0x16EA0, 0x16EBB, 25)),
)
"""Letters since Unicode 15: the first in upper case, the first in lower case, and how many follow each other."""
_LOWER = {upper + more: lower + more for upper, lower, count in _PAIRS for more in range(count)}
_UPPER = {lower: upper for upper, lower in _LOWER.items()}

_CASED = "1C89-1C8A A7CB-A7CF A7D2 A7D4 A7DA-A7DC 10D50-10D65 10D70-10D85 16EA0-16EB8 16EBB-16ED3 1DF25-1DF2A"
_PASSED_OVER = """
    0897 0ECE 1ACF-1ADD 1AE0-1AEB A7F1 10D4E 10D69-10D6D 10D6F 10EC5 10EFA-10EFF 11241 113BB-113C0 113CE 113D0 113D2
    113E1-113E2 11B60 11B62-11B64 11B66 11DD9 11F00-11F01 11F36-11F3A 11F40 11F42 11F5A 13439-13440 13447-13455
    1611E-16129 1612D-1612F 16D40-16D42 16D6B-16D6C 16FF2-16FF3 1E030-1E06D 1E08F 1E4EB-1E4EF 1E5EE-1E5EF 1E6E3 1E6E6
    1E6EE-1E6EF 1E6F5 1E6FF
"""
_NEITHER = "0295 1171E"
"""What Unicode has said since version 15 of characters beside a sigma, which is another letter at the end of a word."""


def upper(texts: Any) -> Any:
    """Return texts in upper case."""
    return _mapped(texts, pc.ascii_upper, lambda text: text.translate(_UPPER).upper())


def lower(texts: Any) -> Any:
    """Return texts in lower case."""
    return _mapped(texts, pc.ascii_lower, _lower)


def _mapped(texts: Any, within_ascii: Callable[[Any], Any], beyond: Callable[[str], str]) -> Any:
    is_ascii = pc.fill_null(pc.string_is_ascii(texts), fill_value=True)
    if pc.all(is_ascii, min_count=0).as_py():
        return within_ascii(texts)
    is_beyond = pc.invert(is_ascii)
    distinct = texts.filter(is_beyond).dictionary_encode()
    mapped = pa.array(map(beyond, distinct.dictionary.to_pylist()), pa.string())
    return pc.replace_with_mask(within_ascii(texts), is_beyond, mapped.take(distinct.indices))


def _lower(text: str) -> str:
    letters = text.translate(_LOWER).lower()
    if "Σ" not in text:
        return letters
    words = text.translate(_LIKE).lower()
    return "".join(like if like in "σς" else letter for like, letter in zip(words, letters, strict=True))


def _codes(ranges: str) -> Iterator[int]:
    for first, _, last in (codes.partition("-") for codes in ranges.split()):
        yield from range(int(first, 16), int(last or first, 16) + 1)


_LIKE = {
    code: like for ranges, like in ((_CASED, "a"), (_PASSED_OVER, "'"), (_NEITHER, " ")) for code in _codes(ranges)
}
"""A character of older versions that is taken alike beside a sigma."""
