"""The S3 server, and a task whose durable copy is in a folder or on it."""

from pathlib import Path

import pytest

from tests.s3.fixtures import gateway
from tests.s3.gateway import Gateway
from tests.state.places import Disk

__all__ = ["gateway"]


@pytest.fixture(params=["folder", "object store"])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Disk:
    if request.param == "folder":
        return Disk(tmp_path)
    gateway: Gateway = request.getfixturevalue("gateway")
    return Disk(tmp_path, bucket=gateway.bucket())
