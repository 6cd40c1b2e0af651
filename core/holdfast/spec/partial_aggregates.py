"""Which `repartition` and `broadcast` steps carry partial aggregates instead of rows.

Where nobody but one `aggregate` reads such a step, its rows are aggregated before they travel: what goes through the
stream is a row per key, window and batch, and no longer one per event. Sessions are not: whether rows are of one
session is known where they meet; nor are rows that may be wanted whole, as dead letters. Pure.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast.spec.verbs import STREAM_VERBS

if TYPE_CHECKING:
    from holdfast.spec.app import AppSpec


def partial_aggregates(spec: "AppSpec") -> Mapping[str, str]:
    """Step that sends rows on -> the aggregate that they are aggregated for."""
    readers: dict[str, list[str]] = {}
    for step in spec.steps:
        for name in step.inputs:
            readers.setdefault(name, []).append(step.name)
    senders = {step.name for step in spec.steps if step.verb in STREAM_VERBS}
    return {
        step.inputs[0]: step.name
        for step in spec.steps
        if step.aggregate is not None
        and step.aggregate.session is None
        and step.late == "Drop"
        and step.inputs[0] in senders
        and readers[step.inputs[0]] == [step.name]
    }
