"""JSON with its own checksum, so that a digit changed by a bad disk is not taken for another number.

The last entry of the object is the CRC-32 of the text without that entry. Must not know what the objects mean.
"""

import json
from collections.abc import Mapping
from typing import Any
from zlib import crc32

_CHECKSUM = "crc32"


def sealed(tree: Mapping[str, Any]) -> str:
    """Return the object as text with its checksum; equal objects in equal order give equal texts."""
    text = _text(tree)
    # Trees of wide apps are large, so the entry is put behind the text instead of writing all once more.
    return f'{text[:-1]}{"," if tree else ""}"{_CHECKSUM}":{crc32(text.encode())}}}'


def unsealed(text: str) -> dict[str, Any]:
    """Return the object that was sealed; raise `ValueError` for any other text."""
    tree = json.loads(text)
    if not isinstance(tree, dict):
        message = f"it is {type(tree).__name__}, not an object"
        raise ValueError(message)
    if tree.pop(_CHECKSUM, None) != crc32(_text(tree).encode()):
        message = "it does not fit its checksum"
        raise ValueError(message)
    return tree


def _text(tree: Mapping[str, Any]) -> str:
    return json.dumps(tree, separators=(",", ":"))
