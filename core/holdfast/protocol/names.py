"""Names of the Kubernetes objects of an app: driver pods, executors, ConfigMaps, network policies.

In one place, so that every program derives the same name and none is too long. Kubernetes limits names to 63
characters, those of StatefulSets in practice to 52 (their pods have a label made from the name), and Spark adds
`spark-s-` before and `-0` after an app id. The digest distinguishes names whose readable part is equal: `a-b` of run
`c` and `a` of run `b-c`. Must not know what the objects are for.
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
