"""The stored form of a placement record: keys, head and shards; with a specific error for anything else found there.

A record is stored under `<app>/record/<run>/head` with its shards beside it. The run is in the key, so runs never see
each other's records. Names with capitals, dots or underscores, which keys may not have, are written in base 32 after
`x-`, reversibly. The record is the JSON of `holdfast plan --record`, cut into shards of at most the store's budget;
the head names them:

    {"format": 1, "app": "ad-clicks", "runId": "1", "generation": 7, "shards": ["<SHA-256>"], "checksum": "<SHA-256>"}

These fields keep their meaning in every later format, so any Holdfast can recognise a record; a later format that
changes the record adds a migration to `MIGRATIONS`. Format 0 was the JSON alone, in place of the head; a record
restored by hand looks like that too. Must not read or write stores.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from holdfast import bounded_json
from holdfast.placement.metadata_store import ContentUnreadableError, KeyNameError
from holdfast.tasks.record import PlacementRecord, RecordInvalidError, parse_record, record_tree

Tree = dict[str, object]
Migration = Callable[[Tree, str], Tree]
"""Converts a document to the next format; the argument is the name of the app it belongs to."""

_HEAD_FIELDS = dict.fromkeys(("format", "app", "runId", "generation", "shards")).keys()
_DIGEST_LENGTH = 64
MOST_BYTES = 16 << 20
"""Most bytes of a record; 50 000 tasks of four streams take 9 MB."""
MOST_SHARDS = 2048
_MOST_VALUES = 1_000_000
_LARGEST = 2**63 - 1
_MOST_SHOWN, _MOST_TOLD = 100, 500


class RecordUnreadableError(ContentUnreadableError):
    """A stored record that is damaged or incomplete."""


class RecordForeignError(ContentUnreadableError):
    """Something else is stored in place of the record of this app and run."""


class RecordNewerError(ContentUnreadableError):
    """A record in a newer format than this Holdfast can read."""


@dataclass(frozen=True, slots=True)
class RecordAddress:
    """The key of a record's head, and the app and run it must belong to."""

    key: str
    app: str
    run_id: str


@dataclass(frozen=True, slots=True)
class RecordHead:
    """The contents of a record's head."""

    format: int
    generation: int
    shards: tuple[str, ...]
    """SHA-256 of each shard, in order. Empty: the run has been claimed and nothing saved yet."""
    inline: Tree | None = None
    """The record itself, in format 0."""

    @property
    def has_record(self) -> bool:
        """Whether a record has been saved."""
        return bool(self.shards) or self.inline is not None


def cut(record: PlacementRecord, budget: int) -> tuple[bytes, ...]:
    """Return the shards of this record. Equal records give equal bytes, so an unchanged shard keeps its name."""
    tree = record_tree(record)
    # A record that could not be loaded again must not replace one that can.
    parse_record(tree)
    text = _canonical(tree)
    return tuple(text[start : start + budget] for start in range(0, len(text), budget))


def digest_of(shard: bytes) -> str:
    """Return the SHA-256 by which the head names this shard."""
    return hashlib.sha256(shard).hexdigest()


def head_bytes(app: str, run_id: str, generation: int, shards: Sequence[str]) -> bytes:
    """Return the bytes of a head that names these shards."""
    fields: Tree = {
        "format": FORMAT,
        "app": app,
        "runId": run_id,
        "generation": generation,
        "shards": list(shards),
    }
    return _canonical({**fields, "checksum": digest_of(_canonical(fields))})


def read_head(place: RecordAddress, value: bytes) -> RecordHead:
    """Return the head in these bytes; raise a `ContentUnreadableError` if they are anything else."""
    fields = _parsed(place.key, value)
    if "format" not in fields:
        return _read_plain(place, fields)
    format_, checksum = fields["format"], fields.pop("checksum", None)
    if not _is_count(format_) or format_ == 0:
        raise RecordUnreadableError(_refusal(place.key, f"its format is {_short(repr(format_))}"))
    if format_ > FORMAT:
        why = f"it has format {format_}, and this Holdfast reads formats up to {FORMAT}: upgrade Holdfast"
        raise RecordNewerError(_refusal(place.key, why))
    if fields.keys() != _HEAD_FIELDS:
        raise RecordUnreadableError(_refusal(place.key, f"its fields are not {', '.join(_HEAD_FIELDS)} and checksum"))
    generation, shards = fields["generation"], fields["shards"]
    if not _is_count(generation) or not isinstance(shards, list) or not all(_is_digest(shard) for shard in shards):
        raise RecordUnreadableError(
            _refusal(place.key, "its generation is no number or its shards are no list of them")
        )
    if len(shards) > MOST_SHARDS:
        why = f"it names {len(shards)} shards, and at most {MOST_SHARDS} are read"
        raise RecordUnreadableError(_refusal(place.key, why))
    _check_owner(place, fields["app"], fields["runId"])
    if checksum != digest_of(_canonical(fields)):
        raise RecordUnreadableError(_refusal(place.key, "its checksum is wrong"))
    return RecordHead(format_, generation, tuple(shards))


def join(place: RecordAddress, head: RecordHead, shards: Sequence[bytes]) -> PlacementRecord:
    """Return the record of this head and its checked shards, migrated from an older format if needed."""
    if head.inline is not None:
        document = head.inline
    else:
        tree = _parsed(place.key, b"".join(shards))
        document = {"format": head.format, "app": place.app, "runId": place.run_id, "record": tree}
    document = migrate(document, head.format, place.app)
    try:
        record = parse_record(document["record"])
    except (RecordInvalidError, RecursionError) as error:
        raise RecordUnreadableError(_refusal(place.key, _short(error, _MOST_TOLD))) from error
    _check_owner(place, document["app"], record.run_id)
    return record


def unreadable_shard(key: str, why: str) -> RecordUnreadableError:
    """Return the error for a shard that can't be used."""
    return RecordUnreadableError(_refusal(key, why))


def migrate(document: Tree, format_: int, app: str, migrations: Sequence[Migration] | None = None) -> Tree:
    """Return the document in the newest format, migrated one format at a time."""
    for migration in (MIGRATIONS if migrations is None else migrations)[format_:]:
        document = migration(document, app)
    return document


def _from_0_to_1(document: Tree, app: str) -> Tree:
    """Format 0 did not name its app: the record belongs to the app under whose key it is stored."""
    return {"format": 1, "app": app, "runId": document["runId"], "record": document}


MIGRATIONS: tuple[Migration, ...] = (_from_0_to_1,)
"""Entry n converts format n to format n + 1. Only append: records in every old format still exist."""

FORMAT = len(MIGRATIONS)


def _read_plain(place: RecordAddress, fields: Tree) -> RecordHead:
    if not {"runId", "grouping"} <= fields.keys():
        found = ", ".join(map(_short, sorted(fields)[:4])) or "nothing in it"
        why = f"it is no placement record, but an object with {found}"
        raise RecordForeignError(_refusal(place.key, why))
    _check_owner(place, place.app, fields["runId"])
    return RecordHead(format=0, generation=0, shards=(), inline=fields)


def _check_owner(place: RecordAddress, app: object, run_id: object) -> None:
    if (app, run_id) != (place.app, place.run_id):
        why = f"it belongs to app {_short(app)}, run {_short(run_id)}, and not to app {place.app}, run {place.run_id}"
        raise RecordForeignError(_refusal(place.key, why))


def _parsed(key: str, value: bytes) -> Tree:
    # Parsed values take many times the memory of their text.
    if (values := value.count(b",")) > _MOST_VALUES:
        raise RecordUnreadableError(_refusal(key, f"it holds {values} values, and at most {_MOST_VALUES} are read"))
    try:
        tree = bounded_json.load(value, most_bytes=MOST_BYTES)
    except bounded_json.JsonTooBigError as error:
        raise RecordUnreadableError(_refusal(key, str(error))) from error
    except ValueError as error:
        raise RecordUnreadableError(_refusal(key, f"it is not JSON: {error}")) from error
    if not isinstance(tree, dict):
        raise RecordForeignError(_refusal(key, f"it is no placement record, but a {type(tree).__name__}"))
    return tree


def _canonical(tree: Tree) -> bytes:
    # ASCII, so that a cut never splits a character; sorted, so that equal records give equal bytes.
    return json.dumps(tree, sort_keys=True, separators=(",", ":")).encode("ascii")


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def _is_digest(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) == _DIGEST_LENGTH


def _short(value: object, most: int = _MOST_SHOWN) -> str:
    """Stored text, cut and cleaned for a message."""
    text = str(value)[:most]
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _refusal(key: str, why: str) -> str:
    return f"{key} can't be used: {why}; it is left as it is: restore it from a copy, or remove it to start anew"


_HEAD = "head"
_DIGEST_DIGITS = 32
_SHARD = re.compile(f"[0-9a-f]{{{_DIGEST_DIGITS}}}")

_PLAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_CODED = "x-"
_MAX_NAME = 63


@dataclass(frozen=True, slots=True)
class RecordKeys:
    """The keys of one app's records."""

    app: str

    @property
    def prefix(self) -> str:
        """The prefix of all these keys."""
        return f"{key_part(self.app)}/record/"

    def of_run(self, run_id: str) -> str:
        """Return the prefix of the keys of one run."""
        return f"{self.prefix}{key_part(run_id)}/"

    def head(self, run_id: str) -> str:
        """Return the key of a run's head."""
        return self.of_run(run_id) + _HEAD

    def shard(self, run_id: str, digest: str) -> str:
        """Return the key of the shard with this SHA-256. Named after its bytes, it is never overwritten by others."""
        return self.of_run(run_id) + digest[:_DIGEST_DIGITS]

    def run_of(self, key: str) -> str | None:
        """Return the run of a head's or shard's key; None for any other key."""
        part, slash, leaf = key.removeprefix(self.prefix).partition("/")
        if not (key.startswith(self.prefix) and slash and (leaf == _HEAD or _SHARD.fullmatch(leaf))):
            return None
        return _name_of(part)

    def is_shard(self, key: str) -> bool:
        """Whether this is the key of a shard, of any run."""
        return self.run_of(key) is not None and not key.endswith(f"/{_HEAD}")


def key_part(name: str) -> str:
    """Return the part of a key that encodes this name."""
    raw = name.encode("utf-8", "surrogatepass")
    if not 0 < len(raw) <= _MAX_NAME:
        message = f"{name!r} has {len(raw)} bytes; the name of an app or a run has 1 to {_MAX_NAME}"
        raise KeyNameError(message)
    if _PLAIN.fullmatch(name) and not name.startswith(_CODED):
        return name
    return _CODED + base64.b32hexencode(raw).decode().rstrip("=").lower()


def _name_of(part: str) -> str | None:
    name = part
    if part.startswith(_CODED):
        digits = part.removeprefix(_CODED).upper()
        try:
            name = base64.b32hexdecode(digits + "=" * (-len(digits) % 8)).decode("utf-8", "surrogatepass")
        except (binascii.Error, UnicodeDecodeError):
            return None
    # A part that `key_part` would not produce is not ours: if it counted as a run, no key would lead back to it.
    return name if 0 < len(name) <= _MAX_NAME and key_part(name) == part else None
