from typing import Any

import pytest

from holdfast.spec.app import StreamApp
from holdfast.spec.parse import parse_app
from holdfast.spec.values import in_bytes
from holdfast_operator.decide.decision import StartDriver
from holdfast_operator.manifests.driver_pod import (
    AppOwner,
    Installation,
    driver_pod,
    executor_template,
    spark_settings,
)
from holdfast_operator.manifests.pod_resources import refused_resources
from tests.operator.apps import TREE, tree

OWNER, RELEASE = AppOwner("ads", "apps", "uid-of-app"), Installation("registry/holdfast:1")
CORES = "spark.kubernetes.executor.request.cores"


def app(part: str, fields: dict[str, Any], **runtime: Any) -> StreamApp:
    return parse_app(tree(runtime={**TREE["spec"]["runtime"], part: fields, **runtime}))


def of_driver(**fields: Any) -> Any:
    return driver_pod(app("driver", fields), 1, OWNER, RELEASE)["spec"]["containers"][0]["resources"]


def of_executors(**fields: Any) -> tuple[dict[str, str], Any]:
    asking = app("executors", fields)
    (container,) = executor_template(StartDriver(asking, 1), OWNER, RELEASE)["spec"]["containers"]
    return spark_settings(asking, 1, OWNER, RELEASE), container.get("resources")


def test_a_driver_asks_for_more_than_its_heap() -> None:
    whole = str(int((2 << 30) * 1.4))
    assert of_driver(cores=2, memory="2g") == {"requests": {"cpu": "2", "memory": whole}, "limits": {"memory": whole}}


def test_heaps_of_all_units_have_room_beside_them() -> None:
    for heap in ("2097152k", "2097152Ki", "2048m", "2048Mi", "2g", "2Gi"):
        assert of_driver(memory=heap)["limits"] == {"memory": str(int((2 << 30) * 1.4))}


def test_amounts_of_all_units_are_read() -> None:
    assert [in_bytes(f"3{unit}") for unit in ("", "k", "M", "G", "T", "P", "E")] == [3 * 1000**n for n in range(7)]
    assert [in_bytes(f"3{unit}i") for unit in "KMGTPE"] == [3 * 1024**n for n in range(1, 7)]


def test_what_the_spec_says_of_a_driver_counts() -> None:
    container_resources = of_driver(resources={"requests": {"cpu": "500m"}, "limits": {"memory": "3Gi", "cpu": "2"}})
    assert container_resources == {
        "requests": {"cpu": "500m", "memory": "3Gi"},
        "limits": {"memory": "3Gi", "cpu": "2"},
    }
    container_resources = of_driver(resources={"requests": {"memory": "2Gi"}, "limits": {"memory": "3Gi"}})
    assert (container_resources["requests"]["memory"], container_resources["limits"]["memory"]) == ("2Gi", "3Gi")


def test_spark_sizes_executors_by_settings() -> None:
    gpu = {"example.org/gpu": "1"}
    resources = {"requests": {"cpu": "500m"}, "limits": {"cpu": "2", "memory": "3Gi", **gpu}}
    settings, beside = of_executors(memory="2Gi", resources=resources)
    assert settings[CORES] == "500m"
    assert settings["spark.kubernetes.executor.limit.cores"] == "2"
    assert settings["spark.executor.memoryOverhead"] == "1024m"
    assert "spark.executor.memoryOverheadFactor" not in settings
    assert beside == {"limits": gpu}


def test_executors_that_ask_for_nothing_are_sized_as_spark_does() -> None:
    settings, beside = of_executors()
    assert settings["spark.executor.memoryOverheadFactor"] == "0.4"
    assert CORES not in settings
    assert beside is None


@pytest.mark.parametrize(
    ("part", "fields", "conf", "sentence"),
    [
        ("driver", {"memory": "2g", "resources": {"limits": {"memory": "2Gi"}}}, {}, "no room beside the heap of 2g"),
        ("executors", {"resources": {"requests": {"memory": "900M"}}}, {}, "executors.resources: memory 900M has no"),
        ("driver", {"resources": {"limits": {"memory": "2000m"}}}, {}, "memory 2000m is a part of a byte"),
        (
            "executors",
            {"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "3Gi"}}},
            {},
            "requests.memory 2Gi and limits.memory 3Gi differ",
        ),
        ("executors", {"resources": {"requests": {"cpu": "1"}}}, {CORES: "2"}, f"sparkConf.{CORES}: spec.runtime.exec"),
        (
            "executors",
            {"resources": {"limits": {"memory": "3Gi"}}},
            {"spark.executor.memoryOverhead": "1g"},
            "sparkConf.spark.executor.memoryOverhead: spec.runtime.executors.resources",
        ),
    ],
)
def test_what_no_container_can_ask_for_is_refused(
    part: str, fields: dict[str, Any], conf: dict[str, str], sentence: str
) -> None:
    (refusal,) = refused_resources(app(part, fields, sparkConf=conf).spec.runtime)
    assert sentence in refusal


def test_settings_and_resources_beside_each_other_are_taken() -> None:
    beside = {"spark.executor.memoryOverhead": "1g", "spark.kubernetes.executor.limit.cores": "2"}
    asking = app("executors", {"resources": {"requests": {"cpu": "1"}}}, sparkConf=beside)
    assert list(refused_resources(asking.spec.runtime)) == []
    assert "spark.executor.memoryOverheadFactor" not in spark_settings(asking, 1, OWNER, RELEASE)
