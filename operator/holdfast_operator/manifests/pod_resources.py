"""What containers of an app's pods ask of nodes: by cores and heap, or as the spec says.

A heap is not all that a pod takes: Java itself and Python's workers need memory beside it. The driver's container is
made here; Spark makes the executors', from settings, and gives them as much memory as they may take. Must not know
pods.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter

from holdfast.spec.pods import Resources
from holdfast.spec.runtime import BESIDE_HEAP, Driver, Executors, Runtime, beside_heap
from holdfast.spec.values import heap_bytes, in_bytes
from holdfast.trees import Tree

_BESIDE_SETTINGS = frozenset(
    {
        "spark.executor.memoryOverhead",
        "spark.executor.memoryOverheadFactor",
        "spark.executor.minMemoryOverhead",
        "spark.kubernetes.memoryOverheadFactor",
    }
)
"""With any of these the user sets the memory beside the heap of executors."""
_CORES: Mapping[str, Callable[[Resources], Mapping[str, str]]] = {
    "spark.kubernetes.executor.request.cores": attrgetter("requests"),
    "spark.kubernetes.executor.limit.cores": attrgetter("limits"),
}
_OF_SPARK = ("cpu", "memory")


def driver_resources(driver: Driver) -> Tree:
    """Return the resources of the driver's container."""
    memory = _memory(driver.resources) or str(heap_bytes(driver.memory) + beside_heap(driver.memory))
    return {
        "requests": {"cpu": str(driver.cores), "memory": memory, **driver.resources.requests},
        "limits": {"memory": memory, **driver.resources.limits},
    }


def executor_resources(executors: Executors) -> Tree:
    """Return the resources that an executor's container has beside those that Spark gives it."""
    resources = executors.resources
    parts = {"requests": _beside_sparks(resources.requests), "limits": _beside_sparks(resources.limits)}
    return {"resources": {part: amounts for part, amounts in parts.items() if amounts}} if any(parts.values()) else {}


def executor_settings(executors: Executors, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings by which Spark sizes the containers of executors; `conf`: the user's."""
    resources = executors.resources
    settings = {name: amounts(resources)["cpu"] for name, amounts in _CORES.items() if "cpu" in amounts(resources)}
    if conf.keys() & _BESIDE_SETTINGS:
        return settings
    if (memory := _memory(resources)) is None:
        return settings | {"spark.executor.memoryOverheadFactor": str(BESIDE_HEAP)}
    return settings | {"spark.executor.memoryOverhead": f"{(in_bytes(memory) - heap_bytes(executors.memory)) >> 20}m"}


def refused_resources(runtime: Runtime) -> Iterator[str]:
    """Yield what containers can't ask for, each with its cure."""
    for part, of in (("driver", runtime.driver), ("executors", runtime.executors)):
        path, memory = f"spec.runtime.{part}.resources", _memory(of.resources)
        if memory is not None and memory.endswith("m"):
            yield f"{path}: memory {memory} is a part of a byte; write e.g. 2Gi"
        elif memory is not None and in_bytes(memory) <= heap_bytes(of.memory):
            yield f"{path}: memory {memory} has no room beside the heap of {of.memory}, for Python and Java; raise it"
    resources = runtime.executors.resources
    request, limit = resources.requests.get("memory"), resources.limits.get("memory")
    if request is not None and limit is not None and request != limit:
        yield (
            f"spec.runtime.executors.resources: requests.memory {request} and limits.memory {limit} differ, and Spark "
            f"gives executors one amount; leave one out"
        )
    twice = [name for name, amounts in _CORES.items() if "cpu" in amounts(resources)]
    if _memory(resources) is not None:
        twice.extend(_BESIDE_SETTINGS)
    for name in sorted(runtime.spark_conf.keys() & set(twice)):
        yield f"spec.runtime.sparkConf.{name}: spec.runtime.executors.resources says it already; leave one out"


def _memory(resources: Resources) -> str | None:
    """Return the memory that the user gives a container; a limit alone is asked for, too."""
    return resources.limits.get("memory") or resources.requests.get("memory")


def _beside_sparks(amounts: Mapping[str, str]) -> dict[str, str]:
    return {name: amount for name, amount in amounts.items() if name not in _OF_SPARK}
