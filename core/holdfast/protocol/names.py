"""Names, labels and the finalizer of an app's Kubernetes objects: pods, executors, ConfigMaps, network policies.

In one place, so that operator, driver and CLI derive the same name and select by the same label. Kubernetes limits
names to 63 characters, those of StatefulSets in practice to 52 (their pods have a label made from the name), and Spark
adds `spark-s-` before and `-0` after an app id. The digest distinguishes names whose readable part is equal: `a-b` of
run `c` and `a` of run `b-c`. Labels that Spark writes are here because Holdfast selects by them. Must not know what the
objects are for.
"""

import hashlib

MAX_APP_ID = 42
_DIGEST = 8


def app_id(app: str, run: str) -> str:
    """Return Spark's id of the app: the same in every attempt of a run, so that executor k gets claim k again."""
    digest = hashlib.sha256(f"{app}\0{run}".encode()).hexdigest()[:_DIGEST]
    return f"{app[: MAX_APP_ID - _DIGEST - 1].rstrip('-')}-{digest}"


def attempt_name(app: str, run: str, attempt: int) -> str:
    """Return the name of an attempt's driver pod and ConfigMap; deterministic, so that no second one can be created."""
    return f"{app_id(app, run)}-{attempt}"


def executor_set(app: str, run: str) -> str:
    """Return the name of the StatefulSet that Spark creates for the executors."""
    return f"spark-s-{app_id(app, run)}-0"


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

ROLE_LABEL = "spark-role"
"""On Spark's pods, from Spark: driver or executor."""

ASSIGNMENT_LABEL = "holdfast.dev/assignment"
"""On the ConfigMap from which a driver reads assignments; the value is the app's name."""

SPARK_APP_LABEL = "spark-app-selector"
"""On executors and their claims, from Spark; the value is Spark's id of the app."""

REPORT_LABEL = "holdfast.dev/report"
"""On the ConfigMap to which a driver writes its report; the value is the app's name."""

FINALIZER = "holdfast.dev/release"
"""Keeps a deleted app until its driver is gone."""
