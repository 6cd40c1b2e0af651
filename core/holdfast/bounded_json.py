"""Bounded reading of untrusted JSON and of Kubernetes objects, by size, depth and number of values.

A JSON parser recurses, and its result takes many times the memory of the text. So the bytes are checked before they
are parsed: brackets outside of strings are counted in C, some milliseconds for a megabyte. One object that can't be
parsed would end a watch for all apps. Instead, a field of an object or its metadata that is too deep, too long or has
too many values is left out, and the object says which and why under `unread`: an app without its spec is then invalid,
and all others go on. `managedFields` is left out too: nothing here uses it. Must not know what the JSON means.
"""

import json
import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate

MOST_BYTES = 1 << 20
"""A Kubernetes object has at most about 1.5 MB, a ConfigMap 1 MiB of data."""
MOST_LEVELS = 64
"""Deeper than anything people or Holdfast write; the parser allows about a thousand."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Up or, as a signed byte, down."""
_BEGINS = (b"[", b"{", b",")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class JsonTooBigError(ValueError):
    """A text that is not read: too long, too deep or too many values."""


def load(text: bytes | str, *, most_bytes: int = MOST_BYTES, most_levels: int = MOST_LEVELS) -> object:
    """Return the parsed text; raise a `ValueError` if it is not JSON or exceeds the limits."""
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    check(data, most_bytes=most_bytes, most_levels=most_levels)
    return json.loads(data)


def check(text: bytes, *, most_bytes: int, most_levels: int, most_values: int | None = None) -> None:
    """Raise `JsonTooBigError` if the text is too long, too deep or has too many values."""
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


UNREAD = "unread"
_METADATA, _FORGOTTEN = b'"metadata"', b'"managedFields"'
_CLOSED_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SIGN, _BEGIN = re.compile(rb"[\[\]{},:]"), re.compile(rb"\s*[\[{]")
_LEVEL_CHANGES = bytes({ord("["): 1, ord("{"): 1, ord("]"): 255, ord("}"): 255}.get(sign, 0) for sign in range(256))
"""Up or, as a signed byte, down."""


@dataclass(frozen=True, slots=True)
class FieldBound:
    """The most bytes and values of one field of an object or of its metadata."""

    length: int
    values: int

    def exceeded(self, text: bytes, levels: int) -> str | None:
        """Return why a text is not read; None: it is within the bounds."""
        try:
            check(text, most_bytes=self.length, most_levels=levels, most_values=self.values)
        except JsonTooBigError as error:
            return str(error)
        return None


FETCHED = FieldBound(2 << 20, 1 << 16)
"""For one object that is fetched: more than etcd accepts, and about ten megabytes when parsed."""
WATCHED = FieldBound(256 << 10, 1 << 14)
"""For the many objects that a watch returns at once; a field left out there is fetched when it is needed."""


class ObjectDepth(IntEnum):
    """What a text is, by the level at which its objects are."""

    OBJECT = 1
    """An object."""
    EVENT = 2
    """An event of a watch."""
    LIST = 3
    """A list of objects."""


def bounded_objects(text: bytes, depth: ObjectDepth, most: FieldBound = FETCHED) -> bytes:
    """Return the same JSON without the fields of objects that exceed the bounds."""
    return text if most.exceeded(text, MOST_LEVELS + depth) is None else _shortened(_Text.of(text), 0, depth, most)


def _shortened(text: "_Text", index: int, depth: ObjectDepth, most: FieldBound) -> bytes:
    if depth is ObjectDepth.OBJECT:
        return _object(text, index, most)
    members = {}
    for name, begin, end in text.children(index):
        if depth is ObjectDepth.EVENT and name == b'"object"':
            members[name] = _object(text, begin, most)
        elif depth is ObjectDepth.LIST and name == b'"items"':
            members[name] = b"[" + b",".join(_object(text, item, most) for _, item, _ in text.children(begin)) + b"]"
        else:
            members[name] = text.all[begin:end]
    return _joined(members)


def _object(text: "_Text", index: int, most: FieldBound) -> bytes:
    unread: dict[str, str] = {}
    members = {}
    for name, begin, end in text.children(index):
        if name == _METADATA:
            members[name] = _joined(dict(_readable(text, text.children(begin), unread, most)))
        else:
            members |= _readable(text, iter([(name, begin, end)]), unread, most)
    return _joined(members | ({json.dumps(UNREAD).encode(): json.dumps(unread).encode()} if unread else {}))


def _readable(
    text: "_Text", children: Iterator[tuple[bytes, int, int]], unread: dict[str, str], most: FieldBound
) -> Iterator[tuple[bytes, bytes]]:
    for name, begin, end in children:
        if name == _FORGOTTEN:
            continue
        value = text.all[begin:end]
        excess = most.exceeded(value, MOST_LEVELS)
        if excess is None:
            yield name, value
        else:
            unread[name[1:-1].decode(errors="replace")] = excess


def _joined(fields: Mapping[bytes, bytes]) -> bytes:
    return b"{" + b",".join(name + b":" + value for name, value in fields.items()) + b"}"


@dataclass(frozen=True, slots=True)
class _Text:
    """A JSON text, prepared to find the ends of values by searches in C."""

    all: bytes
    bare: bytes
    """The text with strings replaced by spaces, equally long."""
    levels: "array[int]"
    """For each byte, how many brackets are open after it."""

    @classmethod
    def of(cls, text: bytes) -> "_Text":
        bare = _CLOSED_STRING.sub(lambda string: b" " * len(string.group()), text)
        return cls(text, bare, array("h", accumulate(array("b", bare.translate(_LEVEL_CHANGES)))))

    def children(self, index: int) -> Iterator[tuple[bytes, int, int]]:
        """The values in the object or list at this index: name with its quotes, begin and end."""
        opened = _BEGIN.match(self.bare, index)
        if opened is None:
            return
        begin, name = opened.end(), b""
        level = self.levels[begin - 1]
        look = begin
        while (sign := _SIGN.search(self.bare, look)) is not None:
            sign_start, look = sign.start(), sign.end()
            if self.levels[sign_start] > level:
                look = self.levels.index(level, sign_start) + 1
            elif sign.group() == b":":
                name, begin = self.all[begin:sign_start].strip(), look
            else:
                if name or self.all[begin:sign_start].strip():
                    yield name, begin, sign_start
                name, begin = b"", look
                if self.levels[sign_start] < level:
                    return
