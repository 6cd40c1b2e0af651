"""A writer is killed by SIGKILL after every step of a put, and at many random moments.

Each time: every key has the value it had or the one being written, what was acknowledged is there with its version, and
the next process writes at once.
"""

import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.placement.file_store import FileStore
from holdfast.placement.metadata_store import Version
from holdfast.placement.record_store import RecordStore
from tests.placement.records import some
from tests.placement.store_writer import KEYS, REMOVE_STEPS, WRITE_STEPS, Writer

KILLS = 2000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 80


def outcomes() -> list[tuple[str, str, bytes | None]]:
    """Operation, the step it dies after, and what must be there then."""
    written = {"renamed", "directory-synced"}
    return [
        *(("create", step, b"new" if step in written else None) for step in WRITE_STEPS),
        *(("replace", step, b"new" if step in written else b"old") for step in WRITE_STEPS),
    ]


@pytest.mark.parametrize(("operation", "step", "expected"), outcomes())
def test_a_writer_killed_after_any_step_leaves_old_or_new(
    tmp_path: Path, operation: str, step: str, expected: bytes | None
) -> None:
    with Writer(tmp_path, "step", operation, step) as writer:
        assert writer.ended() == -signal.SIGKILL
    store = FileStore(tmp_path)
    stored = store.get("a")
    assert (None if stored is None else stored.value) == expected
    next_version = store.put("a", b"next", None if stored is None else stored.version)
    assert int(next_version) == (1 if stored is None else int(stored.version) + 1)
    assert not (tmp_path / ".writing").exists()


@pytest.mark.parametrize("step", REMOVE_STEPS)
def test_a_remover_killed_after_any_step_repeats_no_version(tmp_path: Path, step: str) -> None:
    with Writer(tmp_path, "step", "remove", step) as writer:
        assert writer.ended() == -signal.SIGKILL
    store = FileStore(tmp_path)
    stored = store.get("a")
    assert (stored is None) == (step in ("unlinked", "directory-synced"))
    if stored is not None:
        store.remove("a", stored.version)
    assert store.put("a", b"next", None) == "2"
    assert not (tmp_path / ".writing").exists()


@dataclass
class Known:
    """What the killed writer said: what it acknowledged, and what it was about to do."""

    acknowledged: dict[str, tuple[str, Version]] = field(default_factory=dict)
    pending: dict[str, str] = field(default_factory=dict)

    def hear(self, line: str) -> None:
        match line.split(" "):
            case ["putting", key, value]:
                self.pending = {key: value}
            case ["put", key, version]:
                before = self.acknowledged.get(key)
                assert int(version) == (1 if before is None else int(before[1]) + 1)
                self.acknowledged[key] = self.pending.pop(key), Version(version)
            case _:
                pytest.fail(f"the writer said {line!r}")

    def compare(self, store: FileStore) -> None:
        """What is there now becomes what is known."""
        for key in KEYS:
            stored, before = store.get(key), self.acknowledged.get(key)
            now = None if stored is None else (stored.value.decode(), stored.version)
            if key in self.pending and now is not None and now != before:
                assert now[0] == self.pending[key]
                assert before is None or int(now[1]) > int(before[1])
            else:
                assert now == before, f"{key}: what was acknowledged is lost"
            if now is not None:
                self.acknowledged[key] = now
        self.pending = {}


def test_a_writer_killed_at_any_moment_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    draw, known, middle = random.Random(20240229), Known(), 0  # noqa: S311
    for number in range(KILLS):
        with Writer(tmp_path, "loop", str(number)) as writer:
            kill_at_some_moment(writer, known, draw)
        middle += bool(known.pending)
        store = FileStore(tmp_path)
        known.compare(store)
        before = known.acknowledged.get("a")
        known.acknowledged["a"] = "next", store.put("a", b"next", None if before is None else before[1])
    assert middle > KILLS / 4, "the kills must hit operations, not the gaps between them"


def kill_at_some_moment(writer: Writer, known: Known, draw: random.Random) -> None:
    for _ in range(draw.randrange(1, 30)):
        known.hear(writer.line())
    moment = time.perf_counter() + draw.random() * 0.002
    while time.perf_counter() < moment:
        pass
    writer.kill()
    for line in writer.lines():
        known.hear(line)
    assert writer.ended() == -signal.SIGKILL


def test_a_saver_killed_at_any_moment_leaves_a_whole_record(tmp_path: Path) -> None:
    draw, last, middle = random.Random(7), "", 0  # noqa: S311
    for number in range(KILLS // 2):
        with Writer(tmp_path, "records", str(number)) as writer:
            lines = [writer.line() for _ in range(draw.randrange(1, 12))]
            moment = time.perf_counter() + draw.random() * 0.004
            while time.perf_counter() < moment:
                pass
            writer.kill()
            lines += writer.lines()
        saving = [line.split(" ")[1] for line in lines if line.startswith("saving")]
        saved = [line.split(" ")[1] for line in lines if line.startswith("saved")]
        record = RecordStore(FileStore(tmp_path), "app").load("1")
        allowed = {saved[-1] if saved else last, saving[-1]}
        names = {None if record is None else record.task_processor["partition-099"]}
        assert names <= allowed or (record is None and not last and not saved)
        middle += len(saving) > len(saved)
        last = f"next-{number}"
        RecordStore(FileStore(tmp_path), "app").save(some(last))
        assert RecordStore(FileStore(tmp_path), "app").load("1") == some(last)
        assert {path.name for path in tmp_path.iterdir()} == {".lock", "app.record.1.head"}
    assert middle > KILLS / 8
