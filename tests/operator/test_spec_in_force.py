"""After a rollback a look judges the spec that ran, and nobody but the operator chooses which that is."""

import asyncio
import json
from typing import Any, cast

import pytest

from holdfast.protocol.names import attempt_name
from holdfast.spec.app import BegunAttempt, Rollback
from holdfast.spec.defaults import spec_with_defaults
from holdfast.spec.runtime import AppDefaults, Checkpoint
from holdfast_operator.manifests.driver_pod import APP_KEY
from holdfast_operator.observe.snapshot import SnapshotSources, app_object
from holdfast_operator.observe.spec_in_force import spec_that_ran
from tests.operator.apps import started, tree

Tree = dict[str, Any]
RAN: Tree = {"steps": "those that ran"}


class ConfigMaps:
    """A cluster with these ConfigMaps."""

    def __init__(self, **data: str) -> None:
        self.data = data

    async def get(self, _kind: object, _namespace: str, name: str) -> Tree | None:
        return {"data": {APP_KEY: self.data[name]}} if name in self.data else None


def app(generation: int = 2, **status: Any) -> Tree:
    begun_attempt = BegunAttempt(run_id="1", attempt=1, spec_hash="hash-1")
    fields = {"begun": begun_attempt, "rollback": Rollback(generation=2, why="it crashed"), **status}
    metadata = {"name": "ads", "namespace": "apps", "uid": "u", "generation": generation}
    status_tree = started().model_copy(update=fields).model_dump(mode="json", by_alias=True, exclude_none=True)
    return {**tree(), "metadata": metadata, "status": status_tree}


def ran(app: Tree, text: str | None = None) -> Tree | None:
    """The spec that a look judges in place of the newest."""
    maps = ConfigMaps(**{} if text is None else {attempt_name("ads", "1", 1): text})
    world = cast("SnapshotSources", type("World", (), {"cluster": maps}))
    attempt_spec = asyncio.run(spec_that_ran(world, app_object(app)))
    assert attempt_spec is None or attempt_spec.fingerprint == "hash-1"
    return None if attempt_spec is None else attempt_spec.app.tree["spec"]


def test_the_last_begun_attempts_spec_replaces_the_newest() -> None:
    assert ran(app(), json.dumps({"spec": RAN})) == RAN


def test_the_releases_defaults_are_not_in_the_spec_that_ran() -> None:
    defaults = AppDefaults(checkpoint=Checkpoint(claim="checkpoints"), storage_class="local")
    begun_attempt = BegunAttempt(run_id="1", attempt=1, spec_hash="hash-1", defaults=defaults)
    applied = {**RAN, "runtime": {"image": "x"}, "state": {"size": "1Gi"}}
    orders = json.dumps({"spec": spec_with_defaults(applied, defaults)})
    assert ran(app(begun=begun_attempt), orders) == applied


@pytest.mark.parametrize("unaffected", [app(generation=3), app(rollback=None), app(begun=None)])
def test_the_newest_counts_after_an_edit_and_without_a_rollback(unaffected: Tree) -> None:
    assert ran(unaffected, json.dumps({"spec": RAN})) is None


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}"])
def test_the_newest_counts_without_a_readable_config_map(text: str | None) -> None:
    assert ran(app(), text) is None
