"""The store of placement records in real ConfigMaps: the core's record over the driver's calls."""

import base64

import pytest
from kubernetes import config

from holdfast.errors import UserActionError
from holdfast.placement.config_map_store import ConfigMapStore
from holdfast.placement.metadata_store import VersionConflictError
from holdfast.placement.record_store import MOST_TASKS, RecordStore
from holdfast_runtime.coordination.api_config_maps import ApiConfigMaps
from tests.api.admin import CONFIG_MAPS
from tests.api.conftest import Site
from tests.error_codes import has_code
from tests.placement.records import large

OWNER = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "name": "ads", "uid": "uid-of-app"}


@pytest.fixture
def store(site: Site) -> ConfigMapStore:
    client = config.new_client_from_config(str(site.plane.kubeconfig()))  # type: ignore[no-untyped-call]
    return ConfigMapStore(ApiConfigMaps(client, site.namespace), "ads", OWNER)


def test_values_are_written_over_the_version_that_was_read(store: ConfigMapStore) -> None:
    assert store.get("ads/x") is None
    first = store.put("ads/x", b"\x00one", None)
    with pytest.raises(VersionConflictError):
        store.put("ads/x", b"two", None)
    second = store.put("ads/x", b"\x00second", first)
    assert second != first
    with pytest.raises(VersionConflictError):
        store.put("ads/x", b"two", first)
    stored = store.get("ads/x")
    assert stored is not None
    assert (stored.value, stored.version) == (b"\x00second", second)


def test_the_largest_record_is_one_object_and_comes_back(site: Site, store: ConfigMapStore) -> None:
    saver = RecordStore(store, "ads")
    saver.save(large(MOST_TASKS))
    assert RecordStore(store, "ads").load("1") == large(MOST_TASKS)
    saver.save(large(3))
    assert RecordStore(store, "ads").load("1") == large(3)
    assert [name for name in names_of(site) if name.startswith("ads.")] == ["ads.record.1.head"]


def names_of(site: Site) -> list[str]:
    return [tree["metadata"]["name"] for tree in site.admin.get(CONFIG_MAPS.format(site.namespace))["items"]]


def test_content_of_others_is_refused_and_left_alone(site: Site, store: ConfigMapStore) -> None:
    version = store.put("ads/x", b"one", None)
    path = f"{CONFIG_MAPS.format(site.namespace)}/ads.x"
    site.admin.patch(path, {"data": {"note": "mine"}})
    with pytest.raises(UserActionError, match=r"ads\.x", check=has_code("ContentUnreadableError")):
        store.get("ads/x")
    with pytest.raises(VersionConflictError):
        store.put("ads/x", b"two", version)
    assert base64.b64decode(site.admin.get(path)["binaryData"]["value"]) == b"one"
