"""Whether a store that is on the disk already may be used."""

import pytest

from holdfast_runtime.state.store.directory import Sidecar, TaskIdentity
from holdfast_runtime.state.store.trust import DistrustReason, ExpectedStore, TrustFacts, trust
from tests.state.places import TASK

GOOD = Sidecar(1, TASK, "boot")


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (TrustFacts(GOOD, 4, 1), None),
        (TrustFacts(GOOD, 5, 2), None),
        (TrustFacts(GOOD), None),
        (TrustFacts(None), DistrustReason.NO_STORE),
        (TrustFacts(Sidecar(2, TASK, "boot"), 4, 1), DistrustReason.FORMAT_DIFFERS),
        (TrustFacts(Sidecar(1, TaskIdentity("x", "1", "partition-0"), "boot"), 4, 1), DistrustReason.OTHER_APP),
        (TrustFacts(Sidecar(1, TaskIdentity("ad-clicks", "x", "partition-0"), "boot"), 4, 1), DistrustReason.OTHER_RUN),
        (TrustFacts(Sidecar(1, TaskIdentity("ad-clicks", "1", "x"), "boot"), 4, 1), DistrustReason.OTHER_TASK),
        (TrustFacts(Sidecar(1, TASK, "other"), 4, 1), DistrustReason.MACHINE_RESTARTED),
        (TrustFacts(GOOD, 4, 3), DistrustReason.NEWER_EPOCH),
        (TrustFacts(GOOD, 3, 1), DistrustReason.OTHER_BATCH),
        (TrustFacts(GOOD, 6, 1), DistrustReason.OTHER_BATCH),
        (TrustFacts(GOOD, 4, 1, frozenset({1, 2})), None),
        (TrustFacts(GOOD, 4, 1, frozenset({2})), DistrustReason.OTHER_HISTORY),
    ],
)
def test_a_store_is_trusted_only_if_everything_fits(facts: TrustFacts, reason: DistrustReason | None) -> None:
    distrust = trust(facts, ExpectedStore(TASK, 5, 2, "boot"))
    assert (None if distrust is None else distrust.reason) is reason


def test_a_machine_without_boot_id_is_never_the_same() -> None:
    distrust = trust(TrustFacts(Sidecar(1, TASK, ""), 4, 1), ExpectedStore(TASK, 5, 2, ""))
    assert distrust is not None
    assert distrust.reason is DistrustReason.MACHINE_RESTARTED
