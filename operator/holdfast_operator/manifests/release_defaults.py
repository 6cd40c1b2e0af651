"""What a release gives apps that do not say it, everywhere and by namespace.

The chart writes it, and the operator reads it once, at its start. Must not know what an app says itself.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from holdfast.spec.app import Status
from holdfast.spec.defaults import OfferedDefaults
from holdfast.spec.parse import errors_of_part
from holdfast.spec.rule_checks import checkpoint_place, claim_path
from holdfast.spec.runtime import AppDefaults


class ReleaseDefaultsInvalidError(ValueError):
    """What a release gives is nothing that an app could say."""


@dataclass(frozen=True, slots=True)
class ReleaseDefaults:
    """What a release gives."""

    everywhere: AppDefaults = field(default_factory=AppDefaults)
    namespaces: Mapping[str, AppDefaults] = field(default_factory=dict)
    """Namespace -> what counts there before what counts everywhere."""

    def of(self, namespace: str) -> AppDefaults:
        """Return what apps of a namespace are given."""
        special = self.namespaces.get(namespace, AppDefaults())
        return AppDefaults(
            checkpoint=special.checkpoint or self.everywhere.checkpoint,
            storage_class=special.storage_class or self.everywhere.storage_class,
        )

    def offered(self, namespace: str, status: Status) -> OfferedDefaults:
        """Return what an app is offered: a run that has begun keeps what it began with."""
        run = status.run_id if status.attempt is not None else None
        return OfferedDefaults(self.of(namespace), run, status.defaults or AppDefaults())

    def after_rollback(self, status: Status) -> OfferedDefaults:
        """Return what an app is offered that goes back to the last attempt that began: what that had."""
        begun_attempt = status.begun
        had = AppDefaults() if begun_attempt is None else begun_attempt.defaults or AppDefaults()
        return OfferedDefaults(had, None, had)


def read_release_defaults(text: str) -> ReleaseDefaults:
    """Parse the JSON that the chart writes: namespace -> its defaults, those of all others by an empty name."""
    tree = json.loads(text)
    if not isinstance(tree, dict):
        message = "is no object"
        raise ReleaseDefaultsInvalidError(message)
    by_namespace = {namespace: _read(namespace, fields) for namespace, fields in tree.items()}
    return ReleaseDefaults(by_namespace.pop("", AppDefaults()), by_namespace)


def _read(namespace: str, fields: object) -> AppDefaults:
    of_namespace = f" of {namespace}" if namespace else ""
    try:
        defaults = AppDefaults.model_validate(fields, by_alias=True, by_name=False)
    except ValidationError as error:
        message = f"defaults{of_namespace}: {'; '.join(map(str, errors_of_part(error)))}"
        raise ReleaseDefaultsInvalidError(message) from None
    if defaults.checkpoint is not None and isinstance(fields, dict):
        for broken in (checkpoint_place, claim_path):
            for _, sentence in broken(fields["checkpoint"]):
                message = f"defaults{of_namespace}: checkpoint: {sentence}"
                raise ReleaseDefaultsInvalidError(message)
    return defaults
