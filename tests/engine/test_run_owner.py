"""Whose the shared files of a run are."""

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import UserActionError
from holdfast.protocol.attempt import AttemptOrders
from holdfast_runtime.checkpoint.run_owner import claim_run
from holdfast_runtime.state.durable.storage import DirectoryStorage
from holdfast_runtime.state.errors import CheckpointUnavailableError
from tests.error_codes import has_code

TOLD = AttemptOrders("ads", "team-a", "u-1", "1", 1, "ads-assignment", "ads-report")


def test_every_attempt_of_an_app_finds_its_run(tmp_path: Path) -> None:
    claim_run(DirectoryStorage(tmp_path / "run"), TOLD)
    claim_run(DirectoryStorage(tmp_path / "run"), replace(TOLD, attempt=2))


def test_an_app_made_anew_is_told_what_to_do(tmp_path: Path) -> None:
    claim_run(DirectoryStorage(tmp_path / "run"), TOLD)
    with pytest.raises(
        UserActionError, match=r"app ads that was deleted .* new spec\.runId", check=has_code("RunOfAnotherAppError")
    ):
        claim_run(DirectoryStorage(tmp_path / "run"), replace(TOLD, uid="u-2"))
    claim_run(DirectoryStorage(tmp_path / "run"), TOLD)


def test_a_spoilt_mark_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / "owner.json").write_text("{")
    with pytest.raises(UserActionError, check=has_code("RunOfAnotherAppError")):
        claim_run(DirectoryStorage(tmp_path), TOLD)


def test_a_location_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(CheckpointUnavailableError, match="is mounted"):
        claim_run(DirectoryStorage(tmp_path / "file" / "run"), TOLD)


def test_a_run_without_its_checkpoint_does_not_begin_anew(tmp_path: Path) -> None:
    claim_run(DirectoryStorage(tmp_path / "run"), TOLD)
    claim_run(DirectoryStorage(tmp_path / "run"), replace(TOLD, attempt=2), committed=True)
    with pytest.raises(
        UserActionError, match=r"ads-report .* put back .* new spec\.runId", check=has_code("CheckpointLostError")
    ):
        claim_run(DirectoryStorage(tmp_path / "other"), replace(TOLD, attempt=3), committed=True)
    assert not (tmp_path / "other" / "owner.json").exists()
