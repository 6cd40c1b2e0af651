"""Names, labels and the finalizer of an app's Kubernetes objects: pods, executors, ConfigMaps, network policies.

In one place, so that operator, driver and CLI derive the same name and select by the same label. Kubernetes limits
names to 63 characters, those of StatefulSets in practice to 52 (their pods have a label made from the name), and Spark
adds `spark-s-` before and `-0` after an app id. The digest distinguishes names whose readable part is equal: `a-b` of
run `c` and `a` of run `b-c`. Labels that Spark writes are here because Holdfast selects by them.

Labels and owner references can be changed on any object, its name can't. So an object belongs to an app only if it has
a name that is made here; the functions that parse names (`attempt_in`, `executor_set_in`, `trial_in`) say so. Must
not know what the objects are for.
"""

import hashlib
import re
from dataclasses import dataclass

from holdfast.attempt_number import checked_attempt, plain_attempt

MAX_APP_ID = 42
_DIGEST = 8


def app_id(app: str, run: str) -> str:
    """Return Spark's id of the app: the same in every attempt of a run, so that executor k gets claim k again."""
    digest = hashlib.sha256(f"{app}\0{run}".encode()).hexdigest()[:_DIGEST]
    return f"{_readable(app)}-{digest}"


def _readable(app: str) -> str:
    return app[: MAX_APP_ID - _DIGEST - 1].rstrip("-")


def _any_app_id(app: str) -> str:
    """Return a regular expression of the app ids of all runs. Apps share it if their first 33 characters are equal."""
    return f"{re.escape(_readable(app))}-[0-9a-f]{{{_DIGEST}}}"


def attempt_name(app: str, run: str, attempt: int) -> str:
    """Return the name of an attempt's driver pod and ConfigMap; deterministic, so that no second one can be created."""
    return f"{app_id(app, run)}-{checked_attempt(attempt)}"


@dataclass(frozen=True, slots=True)
class AttemptName:
    """What the name of an attempt's driver pod and ConfigMap says."""

    app_id: str
    attempt: int


def attempt_in(app: str, name: str) -> AttemptName | None:
    """Return what `attempt_name` made this name of; None: it is the name of no attempt of this app."""
    match = re.fullmatch(f"({_any_app_id(app)})-([0-9]+)", name)
    attempt = plain_attempt(match[2]) if match is not None else None
    return AttemptName(match[1], attempt) if match is not None and attempt is not None else None


def executor_set(app: str, run: str) -> str:
    """Return the name of the StatefulSet that Spark creates for the executors."""
    return f"spark-s-{app_id(app, run)}-0"


def executor_set_in(app: str, pod: str) -> str | None:
    """Return the executor set of the pod of this name; None: it is no executor of this app."""
    match = re.fullmatch(f"(spark-s-{_any_app_id(app)}-0)-[0-9]{{1,5}}", pod)
    return match[1] if match is not None else None


def is_claim_of(executor: str, claim: str) -> bool:
    """Return whether a claim was made with this executor pod: its set names it `<volume>-<pod>`."""
    return claim.endswith(f"-{executor}")


def is_run_claim(app_id: str, claim: str) -> bool:
    """Return whether a claim was made with an executor pod of this run."""
    return re.fullmatch(f".+-spark-s-{re.escape(app_id)}-0-[0-9]{{1,5}}", claim) is not None


def trial_name(app: str, run: str, digest: str) -> str:
    """Return the name of the pod that tries what pods are made from; `digest` is that of what is tried."""
    return f"{app_id(app, run)}-trial-{digest}"


def trial_in(app: str, name: str) -> str | None:
    """Return the digest of what the pod of this name tries; None: it is no trial of this app."""
    match = re.fullmatch(f"{_any_app_id(app)}-trial-([0-9a-f]{{{_DIGEST}}})", name)
    return match[1] if match is not None else None


def trial_digest(text: str) -> str:
    """Return the digest of a text that stands in names of trials."""
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]


def report_name(app: str, run: str) -> str:
    """Return the name of the ConfigMap to which the driver of a run writes its report."""
    return f"{app_id(app, run)}-report"


def assignment_name(app: str, run: str) -> str:
    """Return the name of the ConfigMap from which the driver of a run reads assignments."""
    return f"{app_id(app, run)}-assignment"


def policy_name(app: str, uid: str) -> str:
    """Return the name of the NetworkPolicy of an app's pods. No other app has it: names of apps have no dots.

    Nor did a deleted app of the same name: replacing a policy that it left would need the right to delete it.
    """
    return f"holdfast.{app}.{hashlib.sha256(uid.encode()).hexdigest()[:_DIGEST]}"


def api_policy_name(app: str, uid: str) -> str:
    """Return the name of the NetworkPolicy of those pods that talk to the API server."""
    return f"{policy_name(app, uid)}.api"


APP_LABEL = "holdfast.dev/app"
"""On everything that belongs to an app; the value is the app's name."""

APP_ID_LABEL = "holdfast.dev/app-id"
"""On all pods of a run; the value is `app_id`, Spark's id of the app."""

ATTEMPT_LABEL = "holdfast.dev/attempt"
"""On the pods of an attempt; the value is the attempt's number."""

SPEC_LABEL = "holdfast.dev/spec"
"""On an attempt's driver pod and ConfigMap; the value is the fingerprint of the spec that they were made of."""

ROLE_LABEL = "spark-role"
"""On Spark's pods, from Spark: driver or executor."""

TRIAL_LABEL = "holdfast.dev/trial"
"""On a pod that tries what the next attempt's pods are made from, in place of a role; the value is its digest."""

ASSIGNMENT_LABEL = "holdfast.dev/assignment"
"""On the ConfigMap from which a driver reads assignments; the value is the app's name."""

SPARK_APP_LABEL = "spark-app-selector"
"""On executors and their claims, from Spark; the value is Spark's id of the app."""

REPORT_LABEL = "holdfast.dev/report"
"""On the ConfigMap to which a driver writes its report; the value is the app's name."""

FINALIZER = "holdfast.dev/release"
"""Keeps a deleted app until its driver is gone."""
