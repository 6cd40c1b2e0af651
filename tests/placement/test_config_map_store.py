"""What a `MetadataStore` in ConfigMaps does beside what every store does."""

import pytest

from holdfast.errors import UserActionError
from holdfast.placement.config_map_store import ConfigMapStore
from holdfast.placement.metadata_store import VersionConflictError
from tests.error_codes import has_code
from tests.placement.config_maps_here import ConfigMapsHere

OWNER = {"kind": "StreamApp", "name": "ads", "uid": "u-1"}


@pytest.fixture
def maps() -> ConfigMapsHere:
    return ConfigMapsHere()


@pytest.fixture
def store(maps: ConfigMapsHere) -> ConfigMapStore:
    return ConfigMapStore(maps, "ads", OWNER)


def test_a_config_map_names_its_owner_and_its_app(maps: ConfigMapsHere, store: ConfigMapStore) -> None:
    store.put("ads/x", b"one", None)
    metadata = maps.trees["ads.x"]["metadata"]
    assert metadata["ownerReferences"] == [OWNER]
    assert metadata["labels"] == {"holdfast.dev/app": "ads"}


@pytest.mark.parametrize("spoilt", [{"data": {"note": "mine"}}, {"binaryData": {"value": "%"}}, {"binaryData": None}])
def test_content_of_others_is_refused_and_left_alone(
    maps: ConfigMapsHere, store: ConfigMapStore, spoilt: dict[str, object]
) -> None:
    version = store.put("ads/x", b"one", None)
    maps.edit("ads.x", **spoilt)
    before = maps.get("ads.x")
    with pytest.raises(
        UserActionError, match=r"ConfigMap ads\.x .* new spec.runId", check=has_code("ContentUnreadableError")
    ):
        store.get("ads/x")
    with pytest.raises(VersionConflictError):
        store.put("ads/x", b"two", version)
    assert maps.get("ads.x") == before


def test_a_key_that_went_meanwhile_is_a_conflict(maps: ConfigMapsHere, store: ConfigMapStore) -> None:
    version = store.put("ads/x", b"one", None)
    del maps.trees["ads.x"]
    with pytest.raises(VersionConflictError, match="ads/x was written or removed by somebody else"):
        store.put("ads/x", b"two", version)
