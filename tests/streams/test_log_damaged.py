"""Files of the embedded log that were damaged: refused by name, or as good as they were; never a wrong record."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog, close_all
from holdfast_runtime.streams.records import Marker, OffsetRange, written_batch
from tests.error_codes import has_code

CLICKS = StreamPartition("clicks", 0)
FLIPS = 4_000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 300
Content = tuple[object, ...]


def filled(tmp_path: Path) -> tuple[EmbeddedLog, Path]:
    """A stream with chunks of several sizes, markers, a fence, and pages that are free again."""
    log, draw = EmbeddedLog(tmp_path / "log", sync=False), random.Random(3)  # noqa: S311
    log.ensure("clicks", 1, now=0)
    for batch in range(1, 41):
        rows = draw.choice([1, 7, 300])
        for task in ("a", "b"):
            marker = Marker("app/1", task, batch, 2, "life", f"{task} {batch}")
            log.append(CLICKS, written_batch([b"%d" % batch] * rows, [draw.randbytes(60)] * rows, batch), marker)
    log.trim(CLICKS, 500)
    log.fence(["clicks"], "app/1", 3)
    close_all()
    return log, tmp_path / "log" / "clicks" / "0" / "data.mdb"


def content(log: EmbeddedLog) -> Content:
    """All that a user of the log can see."""
    try:
        bounds = log.bounds("clicks")[CLICKS]
        rows = log.fetch(OffsetRange(CLICKS, bounds.oldest, bounds.end))
        return bounds, rows, [log.written(CLICKS, "app/1", task) for task in ("a", "b")]
    finally:
        close_all()


def test_a_flipped_bit_is_refused_by_name_or_changes_nothing(tmp_path: Path) -> None:
    log, path = filled(tmp_path)
    whole, good, draw, refused = path.read_bytes(), content(log), random.Random(4), 0  # noqa: S311
    for trial in range(FLIPS):
        damaged = bytearray(whole)
        # Every other one where it hurts most.
        at = draw.randrange(2 * 4096 if trial % 4 == 0 else len(whole)) if trial % 2 else (trial // 2 * 16) % len(whole)
        damaged[at] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            assert content(log) == good, f"byte {at}"
        except UserActionError as error:
            refused += 1
            assert "clicks" in str(error)
    assert refused > FLIPS // 10


def zeroed(draw: random.Random, content: bytes) -> bytes:
    at = draw.randrange(len(content) // 4096) * 4096
    return content[:at] + bytes(4096) + content[at + 4096 :]


def exchanged(draw: random.Random, content: bytes) -> bytes:
    first, second = sorted(draw.sample(range(2, len(content) // 4096), 2))
    pages = [content[at : at + 4096] for at in range(0, len(content), 4096)]
    pages[first], pages[second] = pages[second], pages[first]
    return b"".join(pages)


def cut(draw: random.Random, content: bytes) -> bytes:
    return content[: draw.randrange(len(content))]


@pytest.mark.parametrize("damage", [zeroed, exchanged, cut])
def test_lost_swapped_or_cut_pages_end_no_process(
    tmp_path: Path, damage: Callable[[random.Random, bytes], bytes]
) -> None:
    log, path = filled(tmp_path)
    whole, good, draw = path.read_bytes(), content(log), random.Random(5)  # noqa: S311
    for _ in range(FLIPS // 5):
        path.write_bytes(damage(draw, whole))
        try:
            assert content(log) == good
        except UserActionError as error:
            assert "clicks" in str(error)


def test_a_changed_number_in_a_streams_file_is_refused(tmp_path: Path) -> None:
    log, path = filled(tmp_path)
    meta = path.parent.parent / "stream.json"
    text = meta.read_text(encoding="utf-8")
    for old, new in [('"partitions":1', '"partitions":3'), ('"map_size":1', '"map_size":3'), ('"created":0', "")]:
        assert old in text
        meta.write_text(text.replace(old, new), encoding="utf-8")
        with pytest.raises(UserActionError, match=r"stream\.json", check=has_code("LogDamagedError")):
            content(log)
