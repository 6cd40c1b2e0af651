"""Names of the Kubernetes objects of an app: driver pods, executors, ConfigMaps, network policies.

In one place, so that a name derived twice is the same and none is ever too long. Kubernetes ends names at 63
characters, StatefulSets in truth at 52 (their pods carry a label made from their name), and Spark puts `spark-s-`
before and `-0` behind an app id. The digest keeps apart what the readable part does not: `a-b` of run `c` and `a` of
run `b-c`. Must not know what the objects are for.
"""

import hashlib

MAX_APP_ID = 42
_DIGEST = 8


def app_id(app: str, run: str) -> str:
    """What Spark calls the app: the same in every attempt of a run, so that executor k finds claim k again."""
    digest = hashlib.sha256(f"{app}\0{run}".encode()).hexdigest()[:_DIGEST]
    return f"{app[: MAX_APP_ID - _DIGEST - 1].rstrip('-')}-{digest}"


def attempt_name(app: str, run: str, attempt: int) -> str:
    """The driver pod of an attempt and the ConfigMap it reads. Its being deterministic is what forbids a second one."""
    return f"{app_id(app, run)}-{attempt}"


def executor_set(app: str, run: str) -> str:
    """The StatefulSet that Spark makes of the executors."""
    return f"spark-s-{app_id(app, run)}-0"


def report_name(app: str, run: str) -> str:
    """The ConfigMap in which the driver of a run reports."""
    return f"{app_id(app, run)}-report"


def assignment_name(app: str, run: str) -> str:
    """The ConfigMap in which assignments are handed to the driver of a run."""
    return f"{app_id(app, run)}-assignment"


def policy_name(app: str, uid: str) -> str:
    """The NetworkPolicy of all pods of an app, which no other app shares: names of apps have no dots.

    Nor does an app of the same name that was: writing over what it left behind takes the right to delete it.
    """
    return f"holdfast.{app}.{hashlib.sha256(uid.encode()).hexdigest()[:_DIGEST]}"


def api_policy_name(app: str, uid: str) -> str:
    """The NetworkPolicy of those of its pods that talk to the API server."""
    return f"{policy_name(app, uid)}.api"
