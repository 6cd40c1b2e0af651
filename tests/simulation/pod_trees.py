"""Trees of pods as the simulated cluster reads them, and the set of executors that Spark makes.

Must not change an object.
"""

from holdfast.protocol.names import APP_ID_LABEL, ROLE_LABEL, SPARK_APP_LABEL
from holdfast.protocol.pods import MAIN
from tests.simulation.objects import MAPS, SECRETS, Tree, owners


def executor_set(settings: dict[str, str], template: Tree, driver: str, uid: str) -> Tree:
    """The StatefulSet that Spark makes of its settings and of the template of executors."""
    run = settings["spark.app.id"]
    labels = {**template["metadata"]["labels"], ROLE_LABEL: "executor", SPARK_APP_LABEL: run, APP_ID_LABEL: run}
    spec = {
        **template["spec"],
        "containers": [{"name": "executor", "image": settings["spark.kubernetes.container.image"]}],
    }
    claims = [{"metadata": {"name": "state", "labels": {SPARK_APP_LABEL: run}}}]
    claimed = any(name.endswith("state.options.claimName") for name in settings)
    return {
        "metadata": {
            "name": f"spark-s-{run}-0",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": driver, "uid": uid}],
        },
        "spec": {
            "replicas": int(settings["spark.executor.instances"]),
            "template": {"metadata": {"labels": labels}, "spec": spec},
            **({"volumeClaimTemplates": claims} if claimed else {}),
        },
    }


def sets_of(pod: Tree) -> list[str]:
    """Uids of the sets that it belongs to."""
    return [owner["uid"] for owner in owners(pod) if owner["kind"] == "StatefulSet"]


def claims_of(pod: Tree) -> list[str]:
    volumes = pod["spec"].get("volumes") or ()
    return [one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one]


def mounted_objects(pod: Tree) -> list[tuple[str, str]]:
    """What has to be there before it can start: kinds and names."""
    volumes = pod["spec"].get("volumes") or ()
    maps = [(MAPS, one["configMap"]["name"]) for one in volumes if "configMap" in one]
    return maps + [(SECRETS, one["secret"]["secretName"]) for one in volumes if "secret" in one]


def container_status(pod: Tree, state: Tree) -> Tree:
    role = (pod["metadata"].get("labels") or {}).get(ROLE_LABEL)
    return {"containerStatuses": [{"name": MAIN["driver" if role == "driver" else "executors"], "state": state}]}
