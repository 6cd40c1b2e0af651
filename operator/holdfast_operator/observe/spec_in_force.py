"""The spec that ran, put in place of the newest one which never came up, as long as nobody changes the app.

It comes from the ConfigMap of the last attempt that began. Whoever may write ConfigMaps may write another one there, so
the caller compares its fingerprint with the status. Must not decide when to go back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.bounded_json import load
from holdfast.protocol.names import attempt_name
from holdfast.spec.defaults import spec_without_defaults
from holdfast.spec.runtime import AppDefaults
from holdfast_operator.cluster import CONFIG_MAP
from holdfast_operator.decide.facts import AppObject
from holdfast_operator.manifests.driver_pod import APP_KEY
from holdfast_operator.observe.snapshot import SnapshotSources


@dataclass(frozen=True, slots=True)
class SpecThatRan:
    """The app with the spec that an attempt ran."""

    app: AppObject
    attempt: str
    """Name of the attempt's ConfigMap."""
    fingerprint: str
    """Of the spec that this attempt ran, from the status."""


async def spec_that_ran(world: SnapshotSources, app: AppObject) -> SpecThatRan | None:
    """Return the app as it ran before its newest spec; None: the newest counts, or nothing else is there."""
    rollback, attempt = app.status.rollback, app.status.begun
    if rollback is None or attempt is None or rollback.generation != app.generation:
        return None
    name = attempt_name(app.name, attempt.run_id, attempt.attempt)
    config_map = await world.cluster.get(CONFIG_MAP, app.namespace, name)
    spec = None if config_map is None else _spec_in(config_map, attempt.defaults or AppDefaults())
    return None if spec is None else SpecThatRan(replace(app, tree={**app.tree, "spec": spec}), name, attempt.spec_hash)


def _spec_in(config_map: Mapping[str, Any], defaults: AppDefaults) -> object:
    """Return the spec as it was applied, without what the release gave: that counts in no fingerprint."""
    try:
        tree = load(str((config_map.get("data") or {}).get(APP_KEY)))
    except ValueError:
        return None
    spec = tree.get("spec") if isinstance(tree, dict) else None
    return spec_without_defaults(spec, defaults) if isinstance(spec, dict) else spec
