"""Bounded reading of JSON that somebody else wrote, and of Kubernetes objects, by size, depth and number of values.

A parser of nested text recurses, and what it makes takes many times the memory of the text; so the bytes are looked
at before anything parses them: brackets outside of strings, counted in C, some milliseconds for a megabyte. A watch
would end for all apps where one object can't be parsed: what of an object or its metadata is too deep, too long or
too much is left out instead, and the object says under `unread` what that was and why, so that an app whose spec is
not there is invalid and everything else goes on. `managedFields` is left out too: nobody here asks who managed a
field. Must not know what the JSON means.
"""

import json
import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
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


UNREAD = "unread"
_METADATA, _FORGOTTEN = b'"metadata"', b'"managedFields"'
_CLOSED_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SIGN, _BEGIN = re.compile(rb"[\[\]{},:]"), re.compile(rb"\s*[\[{]")
_LEVEL_CHANGES = bytes({ord("["): 1, ord("{"): 1, ord("]"): 255, ord("}"): 255}.get(sign, 0) for sign in range(256))
"""Up or, as a signed byte, down."""


@dataclass(frozen=True, slots=True)
class FieldBound:
    """What one field of an object, or of its metadata, may have."""

    length: int
    values: int

    def exceeded(self, text: bytes, levels: int) -> str | None:
        """Why a text is not read; None: it is."""
        try:
            check(text, most_bytes=self.length, most_levels=levels, most_values=self.values)
        except JsonTooBigError as error:
            return str(error)
        return None


FETCHED = FieldBound(2 << 20, 1 << 16)
"""Of one object that is asked for: longer than etcd takes, and some ten megabytes when it is read."""
WATCHED = FieldBound(256 << 10, 1 << 14)
"""Of the many that a watch brings at once; what is left out of an app there is asked for when it is looked at."""


class ObjectDepth(IntEnum):
    """At which level of a text objects are."""

    OBJECT = 1
    """It is one."""
    EVENT = 2
    """It is the event of a watch."""
    LIST = 3
    """It is a list of them."""


def bounded_objects(text: bytes, where: ObjectDepth, most: FieldBound = FETCHED) -> bytes:
    """The same JSON, or a shorter one: what is too much of an object is not in it."""
    return text if most.exceeded(text, MOST_LEVELS + where) is None else _shortened(_Text.of(text), 0, where, most)


def _shortened(text: "_Text", at: int, where: ObjectDepth, most: FieldBound) -> bytes:
    if where is ObjectDepth.OBJECT:
        return _object(text, at, most)
    kept = {}
    for name, begin, end in text.children(at):
        if where is ObjectDepth.EVENT and name == b'"object"':
            kept[name] = _object(text, begin, most)
        elif where is ObjectDepth.LIST and name == b'"items"':
            kept[name] = b"[" + b",".join(_object(text, item, most) for _, item, _ in text.children(begin)) + b"]"
        else:
            kept[name] = text.all[begin:end]
    return _joined(kept)


def _object(text: "_Text", at: int, most: FieldBound) -> bytes:
    unread: dict[str, str] = {}
    kept = {}
    for name, begin, end in text.children(at):
        if name == _METADATA:
            kept[name] = _joined(dict(_readable(text, text.children(begin), unread, most)))
        else:
            kept |= _readable(text, iter([(name, begin, end)]), unread, most)
    return _joined(kept | ({json.dumps(UNREAD).encode(): json.dumps(unread).encode()} if unread else {}))


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
    """A JSON text in which ends of values are found by searches in C, whatever is in them."""

    all: bytes
    bare: bytes
    """Without what is in strings, but as long."""
    levels: "array[int]"
    """At each byte, how many brackets are open behind it."""

    @classmethod
    def of(cls, text: bytes) -> "_Text":
        bare = _CLOSED_STRING.sub(lambda string: b" " * len(string.group()), text)
        return cls(text, bare, array("h", accumulate(array("b", bare.translate(_LEVEL_CHANGES)))))

    def children(self, at: int) -> Iterator[tuple[bytes, int, int]]:
        """The values in the object or list that begins here: name with its quotes, begin and end."""
        opened = _BEGIN.match(self.bare, at)
        if opened is None:
            return
        begin, name = opened.end(), b""
        level = self.levels[begin - 1]
        look = begin
        while (sign := _SIGN.search(self.bare, look)) is not None:
            here, look = sign.start(), sign.end()
            if self.levels[here] > level:
                look = self.levels.index(level, here) + 1
            elif sign.group() == b":":
                name, begin = self.all[begin:here].strip(), look
            else:
                if name or self.all[begin:here].strip():
                    yield name, begin, here
                name, begin = b"", look
                if self.levels[here] < level:
                    return
