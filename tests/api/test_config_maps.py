"""The store of placement records in real ConfigMaps: the core's record over the driver's calls."""

import base64

import pytest
from kubernetes import config

from holdfast.placement.config_map_store import ConfigMapStore
from holdfast.placement.metadata_store import ContentUnreadableError, Version, VersionConflictError
from holdfast.placement.record_store import RecordStore
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import PlacementRecord
from holdfast_runtime.coordination.api_config_maps import ApiConfigMaps
from tests.api.admin import CONFIG_MAPS
from tests.api.conftest import Site

OWNER = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "name": "ads", "uid": "uid-of-app"}


@pytest.fixture
def store(site: Site) -> ConfigMapStore:
    client = config.new_client_from_config(str(site.plane.kubeconfig()))  # type: ignore[no-untyped-call]
    return ConfigMapStore(ApiConfigMaps(client, site.namespace), "ads", OWNER)


def record(tasks: int) -> PlacementRecord:
    names = [f"partition-{at}" for at in range(tasks)]
    grouping = {name: (StreamPartition("clicks", at),) for at, name in enumerate(names)}
    return PlacementRecord("1", grouping, dict.fromkeys(names, "node-a"), dict.fromkeys(names, "exec-1"))


def test_values_are_written_over_the_version_that_was_read(store: ConfigMapStore) -> None:
    assert store.get("ads/x") is None
    first = store.put("ads/x", b"\x00one", None)
    with pytest.raises(VersionConflictError):
        store.put("ads/x", b"two", None)
    second = store.put("ads/x", b"\x00one", first)
    assert second != first
    with pytest.raises(VersionConflictError):
        store.put("ads/x", b"two", first)
    found = store.get("ads/x")
    assert found is not None
    assert (found.value, found.version) == (b"\x00one", second)
    assert store.list("ads/") == {"ads/x": second}
    with pytest.raises(VersionConflictError):
        store.delete("ads/x", first)
    store.delete("ads/x", second)
    assert store.get("ads/x") is None
    with pytest.raises(VersionConflictError):
        store.put("ads/x", b"two", second)


def test_a_large_record_is_kept_in_shards_and_comes_back(store: ConfigMapStore) -> None:
    saver = RecordStore(store, "ads", budget=2_000)
    saver.save(record(200))
    assert RecordStore(store, "ads").load("1") == record(200)
    saver.save(record(3))
    assert RecordStore(store, "ads").load("1") == record(3)
    assert len(store.list("")) == 2


def test_content_of_others_is_refused_and_left_alone(site: Site, store: ConfigMapStore) -> None:
    version = store.put("ads/x", b"one", None)
    path = f"{CONFIG_MAPS.format(site.namespace)}/ads.x"
    changed = site.admin.patch(path, {"data": {"note": "mine"}})
    with pytest.raises(ContentUnreadableError, match=r"ads\.x"):
        store.get("ads/x")
    with pytest.raises(ContentUnreadableError):
        store.put("ads/x", b"two", Version(changed["metadata"]["resourceVersion"]))
    assert base64.b64decode(site.admin.get(path)["binaryData"]["value"]) == b"one"
    assert version
