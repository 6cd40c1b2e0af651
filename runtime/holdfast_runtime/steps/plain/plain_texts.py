"""Texts over Arrow, as plain expressions ask for them: parts, patterns, and the case of letters.

Positions and lengths are those of characters, never of bytes. Must not be given a pattern that
`holdfast.planning.sql.plain.patterns` does not take.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.steps.plain.plain_letters import lower, upper

_SAMPLE = 1024
"""So many texts show how often texts come again."""
_OFTEN = 3


def _once_for_each(search: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that searches each distinct text once, where texts seem to come `_OFTEN` times or more.

    Of n texts drawn from d, about n * n / 2d have come before; so a sample tells d.
    """

    def searched(texts: Any, *patterns: pa.Scalar) -> Any:
        if isinstance(texts, pa.Scalar) or len(texts) < _SAMPLE:
            return search(texts, *patterns)
        again = _SAMPLE - len(texts.slice(0, _SAMPLE).unique())
        if 2 * again * len(texts) < _OFTEN * _SAMPLE**2:
            return search(texts, *patterns)
        distinct = texts.dictionary_encode()
        return search(distinct.dictionary, *patterns).take(distinct.indices)

    return searched


def _get(lists: Any, index: pa.Scalar) -> Any:
    """Return the element of each list; null where it has none."""
    offsets = lists.offsets.to_numpy()
    indices = offsets[:-1] + index.as_py()
    return lists.values.take(pa.array(indices, mask=indices >= offsets[1:]))


def _extract(texts: Any, pattern: pa.Scalar) -> Any:
    group = pc.struct_field(pc.extract_regex(texts, pattern.as_py()), [0])
    return pc.if_else(pc.is_valid(texts), pc.fill_null(group, ""), pa.scalar(None, pa.string()))


def _position(texts: Any, part: pa.Scalar) -> Any:
    """Return where a text begins within others, from 1; 0 where it does not."""
    before = pc.utf8_length(_get(pc.split_pattern(texts, part.as_py(), max_splits=1), pa.scalar(0)))
    return pc.if_else(pc.match_substring(texts, part.as_py()), pc.add(before.cast(pa.int64()), 1), 0)


def _padded(pad: Callable[..., Any]) -> Callable[[Any, pa.Scalar, pa.Scalar], Any]:
    """Return a function that makes texts this long: longer ones lose their ends."""
    return lambda texts, width, padding: pc.utf8_slice_codeunits(
        pad(texts, width.as_py(), padding.as_py()), 0, width.as_py()
    )


def _translated(texts: Any, *pairs: pa.Scalar) -> Any:
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        texts = pc.replace_substring(texts, old.as_py(), new.as_py())
    return texts


def _with_word(search: Callable[..., Any]) -> Callable[[Any, pa.Scalar], Any]:
    return lambda texts, word: search(texts, word.as_py())


TEXT_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "concat": lambda *texts: pc.binary_join_element_wise(*texts, "", null_handling="emit_null"),
    "contains": _with_word(pc.match_substring),
    "endswith": _with_word(pc.ends_with),
    "extract": _once_for_each(_extract),
    "get": _get,
    "instr": _position,
    "length": pc.utf8_length,
    "like": _with_word(pc.match_like),
    "lower": lower,
    "lpad": _padded(pc.utf8_lpad),
    "ltrim": lambda texts: pc.ascii_ltrim(texts, " "),
    "regexp_replace": _once_for_each(
        lambda texts, old, new: pc.replace_substring_regex(texts, old.as_py(), new.as_py())
    ),
    "replace": lambda texts, old, new: pc.replace_substring(texts, old.as_py(), new.as_py()),
    "rlike": _once_for_each(_with_word(pc.match_substring_regex)),
    "rpad": _padded(pc.utf8_rpad),
    "rtrim": lambda texts: pc.ascii_rtrim(texts, " "),
    "slice": lambda texts, start, end: pc.utf8_slice_codeunits(texts, start.as_py(), end.as_py()),
    "split": _with_word(pc.split_pattern),
    "startswith": _with_word(pc.starts_with),
    "text": lambda whole: pc.cast(whole, pa.string()),
    "translate": _translated,
    "trim": lambda texts: pc.ascii_trim(texts, " "),
    "upper": upper,
}
