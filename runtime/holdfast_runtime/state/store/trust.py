"""Whether a local store may be used for a batch: an ordered list of small checks, and the list is the rule.

A store that is not trusted is dropped and restored, so each check names what was found and what was expected. One
reason must not lead to a restore: on `DistrustReason.NEWER_EPOCH` the process has to end. Must not read anything: facts
come in as arguments.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from holdfast.times import file_moment
from holdfast_runtime.state.store.directory import FORMAT, FileStamp, LastUse, Sidecar, TaskIdentity, UsePhase

_DEADLY = 2


class DistrustReason(StrEnum):
    """Why a local store is not used."""

    NO_STORE = "NoStore"
    FORMAT_DIFFERS = "FormatDiffers"
    OTHER_APP = "OtherApp"
    OTHER_RUN = "OtherRun"
    OTHER_TASK = "OtherTask"
    MACHINE_RESTARTED = "MachineRestarted"
    NEWER_EPOCH = "NewerEpoch"
    """A newer attempt wrote it: the caller must end, not restore."""
    DAMAGED = "Damaged"
    """Something read from it can't be right."""
    CHANGED = "Changed"
    """Its file is not as its last user left it."""
    DEADLY = "Deadly"
    """Several users in a row ended while they had it open."""
    OTHER_BATCH = "OtherBatch"
    OTHER_HISTORY = "OtherHistory"
    """The store or its checkpoint was put back alone: both are at the same batch number with different content."""
    UNREADABLE = "Unreadable"
    """LMDB can't open it."""


@dataclass(frozen=True, slots=True)
class Distrust:
    """A reason with its explanation."""

    reason: DistrustReason
    message: str


@dataclass(frozen=True, slots=True)
class StoreUse:
    """How the last user left a store, and what its file looks like now."""

    left: LastUse | None
    file: FileStamp | None


@dataclass(frozen=True, slots=True)
class TrustFacts:
    """Known facts of the local store; batch and epoch are None until it may be opened."""

    sidecar: Sidecar | None
    batch: int | None = None
    epoch: int | None = None
    copied: frozenset[int] = frozenset()
    """The attempts whose version of that batch is in the durable copy; empty if unknown."""
    use: StoreUse | None = None
    """None if not checked: while an app runs, it changes."""


@dataclass(frozen=True, slots=True)
class ExpectedStore:
    """The store the coming batch needs."""

    identity: TaskIdentity
    batch: int
    epoch: int
    boot_id: str


Check = Callable[[Sidecar, TrustFacts, ExpectedStore], Distrust | None]


def check_format(sidecar: Sidecar, _: TrustFacts, __: ExpectedStore) -> Distrust | None:
    """Another release may store bytes in another layout."""
    if sidecar.format == FORMAT:
        return None
    return Distrust(DistrustReason.FORMAT_DIFFERS, f"it has format {sidecar.format}, this release uses {FORMAT}")


def check_app(sidecar: Sidecar, _: TrustFacts, expected: ExpectedStore) -> Distrust | None:
    """Directories get reused by other apps."""
    return _same(DistrustReason.OTHER_APP, "app", sidecar.identity.app, expected.identity.app)


def check_run(sidecar: Sidecar, _: TrustFacts, expected: ExpectedStore) -> Distrust | None:
    """State never crosses runs."""
    return _same(DistrustReason.OTHER_RUN, "run", sidecar.identity.run, expected.identity.run)


def check_task(sidecar: Sidecar, _: TrustFacts, expected: ExpectedStore) -> Distrust | None:
    """Another task's keys would look valid here."""
    return _same(DistrustReason.OTHER_TASK, "task", sidecar.identity.task, expected.identity.task)


def check_boot(sidecar: Sidecar, _: TrustFacts, expected: ExpectedStore) -> Distrust | None:
    """Commits don't wait for the disk, so they do not survive a restart. A missing boot id never matches."""
    if sidecar.boot_id and sidecar.boot_id == expected.boot_id:
        return None
    return Distrust(
        DistrustReason.MACHINE_RESTARTED, f"written under boot {sidecar.boot_id!r}, now {expected.boot_id!r}"
    )


def check_damage(sidecar: Sidecar, _: TrustFacts, __: ExpectedStore) -> Distrust | None:
    """A reader that met damage noted it; damaged content must not be read again."""
    return None if sidecar.damage is None else Distrust(DistrustReason.DAMAGED, f"it is damaged: {sidecar.damage}")


def check_use(_: Sidecar, facts: TrustFacts, __: ExpectedStore) -> Distrust | None:
    """If the file was cut, flipped, swapped or put back, LMDB would read wrong rows or end the process."""
    return None if facts.use is None else _use_distrust(facts.use)


def check_epoch(_: Sidecar, facts: TrustFacts, expected: ExpectedStore) -> Distrust | None:
    """An older attempt must not take over from a newer one."""
    if facts.epoch is None or facts.epoch <= expected.epoch:
        return None
    return Distrust(DistrustReason.NEWER_EPOCH, f"attempt {facts.epoch} wrote it, and this is attempt {expected.epoch}")


def check_batch(_: Sidecar, facts: TrustFacts, expected: ExpectedStore) -> Distrust | None:
    """At the batch before, it continues; at this batch, the batch is replayed; any other batch leaves a gap."""
    if facts.batch is None or facts.batch in (expected.batch - 1, expected.batch):
        return None
    return Distrust(DistrustReason.OTHER_BATCH, f"it is at batch {facts.batch}, and batch {expected.batch} is to run")


def check_history(_: Sidecar, facts: TrustFacts, __: ExpectedStore) -> Distrust | None:
    """If the durable copy has another version of the batch, what follows would be computed on a different state."""
    if not facts.copied or facts.epoch in facts.copied:
        return None
    message = f"it has batch {facts.batch} of attempt {facts.epoch}, and the checkpoint that of {max(facts.copied)}"
    return Distrust(DistrustReason.OTHER_HISTORY, message)


CHECKS: tuple[Check, ...] = (
    check_format,
    check_app,
    check_run,
    check_task,
    check_boot,
    check_damage,
    check_use,
    check_epoch,
    check_batch,
    check_history,
)


def trust(facts: TrustFacts, expected: ExpectedStore) -> Distrust | None:
    """Return why the store may not be used for this batch, or None if it may."""
    if facts.sidecar is None:
        return Distrust(DistrustReason.NO_STORE, "there is no local store")
    for check in CHECKS:
        distrust = check(facts.sidecar, facts, expected)
        if distrust is not None:
            return distrust
    return None


def _same(reason: DistrustReason, what: str, actual: str, expected: str) -> Distrust | None:
    return None if actual == expected else Distrust(reason, f"it belongs to {what} {actual}, not {expected}")


def _use_distrust(use: StoreUse) -> Distrust | None:
    left, file = use.left, use.file
    if left is None or file is None:
        what = "nothing tells how it was left" if file is not None else "its data file is gone"
        return Distrust(DistrustReason.CHANGED, what)
    # LMDB finds out how far a transaction got; the file of a store never shrinks.
    interrupted = left.phase is UsePhase.WRITING and file.size >= left.file.size
    if file != left.file and not interrupted:
        what = (
            f"{file.size:,} bytes changed at {file_moment(file.changed)}, "
            f"left with {left.file.size:,} at {file_moment(left.file.changed)}"
        )
        return Distrust(DistrustReason.CHANGED, f"its data file was changed since it was left ({what})")
    if left.unclosed >= _DEADLY:
        return Distrust(
            DistrustReason.DEADLY, f"the last {left.unclosed} processes that had it open ended without closing it"
        )
    return None
