"""A driver's last word."""

import json
import logging
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError, RetrySoonError, UserActionError, WorldChangeError
from holdfast_runtime.driver.pod import failure_message, success_message, write_termination
from holdfast_runtime.progress import EndCause, RunEnded


@pytest.mark.parametrize(
    ("error", "way_out", "message"),
    [
        (UserActionError("edit it"), "user", "edit it"),
        (WorldChangeError("no broker"), "world", "no broker"),
        (RetrySoonError("lost a race"), "world", "lost a race"),
        (HoldfastError("odd"), "bug", "HoldfastError: odd"),
        (ValueError("odd"), "bug", "ValueError: odd"),
    ],
)
def test_a_failure_says_who_has_to_act(error: Exception, way_out: str, message: str) -> None:
    assert json.loads(failure_message(error)) == {"failed": way_out, "message": message}


def test_a_message_is_cut_to_what_a_pod_can_say() -> None:
    message = json.loads(failure_message(UserActionError("é" * 5000)))["message"]
    assert len(message.encode()) == 2000


def test_a_good_end_says_which() -> None:
    assert success_message(RunEnded(EndCause.DRAINED, 1, 2, 3, 4.0)) == '{"ended": "drained"}'
    assert success_message(RunEnded(EndCause.COMPLETED, 1, 2, 3, 4.0)) == '{"ended": "completed"}'


def test_it_is_written_to_its_place_else_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_termination("word", tmp_path / "log")
    assert (tmp_path / "log").read_text() == "word"
    with caplog.at_level(logging.WARNING, "holdfast"):
        write_termination("word", tmp_path / "nowhere" / "log")
    assert "word" in caplog.text
