"""What a release gives the apps that do not say it themselves, and how an app takes it.

A run keeps what it began with: a checkpoint or a class of claims that changes below it would be another history. So
the release's values count for a new run alone, and an app's status has those of its run. Must not know where values
come from.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.spec.app import AppSpec, StreamApp
from holdfast.spec.runtime import AppDefaults
from holdfast.trees import Tree


@dataclass(frozen=True, slots=True)
class OfferedDefaults:
    """What an app may take: of the release, or what its run began with."""

    release: AppDefaults = field(default_factory=AppDefaults)
    run: str | None = None
    """The run that has begun; None: none has."""
    of_run: AppDefaults = field(default_factory=AppDefaults)

    def for_run(self, run: str) -> AppDefaults:
        """Return what an app in this run is offered."""
        return self.of_run if run == self.run else self.release


def missing_in(spec: AppSpec, defaults: AppDefaults) -> AppDefaults:
    """Return those that the spec does not say itself."""
    in_claims = spec.state.location == "Claim" and spec.state.storage_class is None
    return AppDefaults(
        checkpoint=defaults.checkpoint if spec.runtime.checkpoint is None else None,
        storage_class=defaults.storage_class if in_claims else None,
    )


def with_defaults(app: StreamApp, missing: AppDefaults) -> StreamApp:
    """Return the app with what its spec does not say."""
    runtime, state = app.spec.runtime, app.spec.state
    if missing.checkpoint is not None:
        runtime = runtime.model_copy(update={"checkpoint": missing.checkpoint})
    if missing.storage_class is not None:
        state = state.model_copy(update={"storage_class": missing.storage_class})
    return app.model_copy(update={"spec": app.spec.model_copy(update={"runtime": runtime, "state": state})})


def spec_with_defaults(spec: Mapping[str, Any], missing: AppDefaults) -> Tree:
    """Return the spec of a file or an object with what it does not say."""
    return {
        **spec,
        **{part: {**(spec.get(part) or {}), **fields} for part, fields in _fields(missing).items()},
    }


def spec_without_defaults(spec: Mapping[str, Any], missing: AppDefaults) -> Tree:
    """Return the spec as it was before they were put in."""
    parts = {
        part: {name: value for name, value in spec[part].items() if name not in fields}
        for part, fields in _fields(missing).items()
        if isinstance(spec.get(part), dict)
    }
    return {**spec, **parts}


def _fields(defaults: AppDefaults) -> dict[str, Tree]:
    """Return part of a spec -> its fields, as in a file."""
    fields: dict[str, Tree] = {}
    if defaults.checkpoint is not None:
        fields["runtime"] = {
            "checkpoint": defaults.checkpoint.model_dump(mode="json", by_alias=True, exclude_none=True)
        }
    if defaults.storage_class is not None:
        fields["state"] = {"storageClass": defaults.storage_class}
    return fields
