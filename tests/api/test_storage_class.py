"""Apps that name no storage class, on a cluster that has a default, or has none."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.admin import CONFIG_MAPS
from tests.api.conftest import Site, opened
from tests.api.plane import Plane
from tests.waiting import wait_until

CLASS = "/apis/storage.k8s.io/v1/storageclasses/standard"
OPTION = "spark.kubernetes.executor.volumes.persistentVolumeClaim.state.options.storageClass"


@pytest.fixture
def site(plane: Plane, tmp_path: Path) -> Iterator[Site]:
    with opened(plane, tmp_path) as made:
        yield made
        default(made, "true")


def default(site: Site, holds: str) -> None:
    site.admin.patch(CLASS, {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": holds}}})


def test_an_app_waits_for_a_default_and_tells_its_attempt(site: Site) -> None:
    default(site, "false")
    with site.operator():
        site.apply()
        site.until("Ready", "False", "StorageClassMissing")
        assert site.alive() == []
        default(site, "true")
        wait_until(lambda: len(site.alive()) == 1, 60, "the driver is made")
        spark_json = site.admin.get(f"{CONFIG_MAPS.format(site.namespace)}/{site.alive()[0]}")["data"]["spark.json"]
    assert json.loads(spark_json)[OPTION] == "standard"
