"""Records that did not get to their topic: which one is to blame, and how it is named.

A broker refuses the records of one request together, and mostly says the same of all of them: who is told of a
neighbour looks in vain. Pure: what became of records comes in. Must not decide what follows.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from confluent_kafka import KafkaError

from holdfast_runtime.streams.kafka.client.errors import is_passing

_SHOWN = 80
_BY_SIZE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
_BESIDE = int(KafkaError._INVALID_DIFFERENT_RECORD)  # noqa: SLF001 - it has no other name


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """One record that was given and is not there."""

    code: int
    topic: str
    partition: int
    key: bytes | None
    value_bytes: int
    text: str
    """What the code means, in the client's words."""
    remark: int = 0
    """The address of what is said of it beside that, the same for records of which the same is said."""
    among: int = 1
    """Of so many it is one, and nobody says which is at fault."""

    def __str__(self) -> str:
        key = "without a key" if self.key is None else f"with key {_shown(self.key)}"
        size = self.value_bytes + len(self.key or b"")
        others = f", or another of the {self.among} sent with it" if self.among > 1 else ""
        return f"the record {key} for {self.topic}/{self.partition} ({size} bytes){others}: {self.text}"


def blamed(failed: Sequence[FailedRecord]) -> FailedRecord | None:
    """The record for which others were refused too; None: all of them may be written when they are tried again."""
    refused = [one for one in failed if not is_passing(one.code)]
    guilty = [one for one in refused if one.code != _BESIDE] or refused
    if not guilty:
        return None
    same = [one for one in guilty if one.code == guilty[0].code]
    if same[0].code in _BY_SIZE:
        return max(same, key=lambda one: one.value_bytes + len(one.key or b""))
    # All neighbours hear the same; each record at fault, something of its own.
    said = Counter(one.remark for one in same)
    rare = [one for one in same if said[one.remark] == min(said.values())]
    # A compacted topic takes none without a key.
    return replace(min(rare, key=lambda one: one.key is not None), among=len(rare))


def _shown(key: bytes) -> str:
    return repr(key) if len(key) <= _SHOWN else f"{key[:_SHOWN]!r} and {len(key) - _SHOWN} more bytes"
