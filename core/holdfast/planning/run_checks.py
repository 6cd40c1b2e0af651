"""What this release runs: what it can plan and not run yet is said wherever a plan is made, before anything starts.

The one list; planner, operator and engine ask here.
"""

from collections.abc import Iterator

from holdfast.planning.problems_part import Problem
from holdfast.reasons import Reason
from holdfast.spec.app_part import AppSpec

BUILT_VERBS = ("filter", "select", "apply", "process", "to", "repartition", "broadcast", "merge")


def not_built(spec: AppSpec) -> Iterator[Problem]:
    """Steps and tables that this release plans and does not run."""
    for step in spec.steps:
        if step.verb not in BUILT_VERBS:
            message = (
                f"step {step.name}: this release can plan {step.verb} but not run it; it runs {', '.join(BUILT_VERBS)}"
            )
            yield Problem(Reason.NOT_BUILT, message, step=step.name)
    for table in spec.tables:
        message = f"table {table.name}: this release can plan tables but not run them; leave it out"
        yield Problem(Reason.NOT_BUILT, message, stream=table.name)
