"""Records that a converter wrote with their schema: `{"schema": ..., "payload": ...}` taken apart, many at a time.

Records of one schema begin with the same bytes, so it is read once and they are cut behind it. Those that mean the same
in another layout are taken apart one by one. Must not read payloads.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.planning.types.connect.schema import ConnectSchemaError, ConnectType, connect_type

SCHEMA, PAYLOAD = "schema", "payload"
OPENING = b'{"schema":'
"""How a wrapped record begins as converters write it."""
_BETWEEN = f',"{PAYLOAD}":'
_BLANK = " \t\n\r"
_READER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)


@dataclass(frozen=True, slots=True)
class Head:
    """What all records of a schema begin with."""

    prefix: bytes
    schema: ConnectType | str | None
    """Why it is none, if it is none; None: the records say that they have no schema."""


def head_of(raw: bytes) -> Head | None:
    """Return the head of a record that is laid out as converters do; None of another one."""
    try:
        text = raw.decode()
        tree, end = _READER.raw_decode(text, len(OPENING))
    except (ValueError, RecursionError):
        return None
    if not text.startswith(_BETWEEN, end) or not _is_schema(tree):
        return None
    return Head(text[: end + len(_BETWEEN)].encode(), _schema(tree))


@dataclass(frozen=True, slots=True)
class TakenApart:
    """A wrapped record."""

    payload: bytes
    schema: ConnectType | str | None
    """As of a head."""


def taken_apart(raw: bytes) -> TakenApart | None:
    """Return the parts of a wrapped record in any layout; None if it is none."""
    members = members_of(raw)
    if members is None or members.keys() != {SCHEMA, PAYLOAD}:
        return None
    try:
        tree = _READER.decode(members[SCHEMA])
    except RecursionError:  # a few levels deeper than where it was read before
        return None
    return TakenApart(members[PAYLOAD].encode(), _schema(tree)) if _is_schema(tree) else None


def members_of(raw: bytes) -> Mapping[str, str] | None:
    """Return name -> text of an object's members; None if the bytes are no object."""
    try:
        return _members(raw.decode().strip(_BLANK))
    except (ValueError, RecursionError, IndexError):
        return None


def _members(text: str) -> Mapping[str, str] | None:
    members: dict[str, str] = {}
    if not text.startswith("{"):
        return None
    place, opened = _behind(text, 1), True
    while opened or text[place] == ",":
        if opened and text[place] == "}":
            break
        name, place = _READER.raw_decode(text, place if opened else _behind(text, place + 1))
        place = _behind(text, place)
        if not isinstance(name, str) or text[place] != ":":
            return None
        start = _behind(text, place + 1)
        _, end = _READER.raw_decode(text, start)
        members[name], place, opened = text[start:end], _behind(text, end), False
    return members if text[place:] == "}" else None


def _behind(text: str, place: int) -> int:
    """Return the place behind the blanks at a place."""
    while text[place] in _BLANK:
        place += 1
    return place


def _is_schema(tree: Any) -> bool:
    return tree is None or isinstance(tree, dict)


def _schema(tree: Any) -> ConnectType | str | None:
    if tree is None:
        return None
    try:
        return connect_type(tree)
    except ConnectSchemaError as error:
        return f"the schema in the record can't be used: {error}"
