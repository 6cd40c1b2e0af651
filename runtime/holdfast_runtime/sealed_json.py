"""JSON that carries its own checksum, so that a digit the disk has changed is no other number.

The last entry of the object is the CRC-32 of the text without it. Must not know what the objects mean.
"""

import json
from collections.abc import Mapping
from typing import Any
from zlib import crc32

_CHECKSUM = "crc32"


def sealed(tree: Mapping[str, Any]) -> str:
    """The text of an object; equal objects of equal order give equal texts."""
    text = _text(tree)
    return _text({**tree, _CHECKSUM: crc32(text.encode())})


def unsealed(text: str) -> dict[str, Any]:
    """What was sealed; raises `ValueError` for anything else."""
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
