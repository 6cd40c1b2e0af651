"""Why: where the placement record of a run is kept: `<app>/record/<run>/head`, and its shards beside it.

The run is in the key, so runs never see each other's records. Run ids may have capitals, dots and underscores, which
keys may not: such names are written in base 32 behind `x-`, reversibly. Must not read or write anything.
"""

import base64
import binascii
import re
from dataclasses import dataclass

from holdfast.placement.metadata_store import KeyNameError

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
        """What all of them start with."""
        return f"{key_part(self.app)}/record/"

    def of_run(self, run_id: str) -> str:
        """What the keys of one run start with."""
        return f"{self.prefix}{key_part(run_id)}/"

    def head(self, run_id: str) -> str:
        """The key that says which shards are the record."""
        return self.of_run(run_id) + _HEAD

    def shard(self, run_id: str, digest: str) -> str:
        """The key of the shard with this SHA-256. Named after its bytes, it never has to be overwritten by others."""
        return self.of_run(run_id) + digest[:_DIGEST_DIGITS]

    def run_of(self, key: str) -> str | None:
        """The run a head or shard belongs to; None for a key that is neither."""
        part, slash, leaf = key.removeprefix(self.prefix).partition("/")
        if not (key.startswith(self.prefix) and slash and (leaf == _HEAD or _SHARD.fullmatch(leaf))):
            return None
        return _name_of(part)

    def is_shard(self, key: str) -> bool:
        """Whether this is the key of a shard, of whatever run."""
        return self.run_of(key) is not None and not key.endswith(f"/{_HEAD}")


def key_part(name: str) -> str:
    """The part of a key that stands for this name."""
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
    # A spelling `key_part` would not choose is somebody else's: taken as a run, it could not be found again.
    return name if 0 < len(name) <= _MAX_NAME and key_part(name) == part else None
