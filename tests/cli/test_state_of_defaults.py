"""`holdfast state --cluster` of an app whose checkpoint is its release's."""

from typing import Any

import pytest

from holdfast_cli.state import state_command
from tests.cli.conftest import Holdfast
from tests.operator.apps import tree


class Target:
    """A cluster with one app."""

    namespace = "apps"

    def __init__(self, app: dict[str, Any]) -> None:
        self.app = app

    def connect(self) -> "Target":
        return self

    def close(self) -> None: ...

    def get(self, *_: object) -> dict[str, Any]:
        return self.app


def test_the_checkpoint_of_its_run_is_looked_for(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    status = {"runId": "1", "attempt": 1, "defaults": {"checkpoint": {"location": "file:///no/such/checkpoints"}}}
    metadata = {"name": "ads", "namespace": "apps", "uid": "u", "generation": 1}
    app = {**tree(runtime={}), "metadata": metadata, "status": status}
    monkeypatch.setattr(state_command, "namespace_target", lambda *_: Target(app))
    ran = holdfast("state", "ls", "ads", "--cluster")
    assert ran.code == 2
    assert "ads has no driver that runs, or you may not see it: its durable copies are read from here" in ran.err
    assert "ads keeps its checkpoint in /no/such/checkpoints" in ran.err
