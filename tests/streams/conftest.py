"""A log in a folder of its own, whose partitions are closed when the test is over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast_runtime.streams.log.embedded_log import EmbeddedLog, close_all


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    yield EmbeddedLog(tmp_path / "log", sync=False)
    close_all()
