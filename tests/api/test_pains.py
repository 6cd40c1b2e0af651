"""What hurts users of other operators, seen on a real API server; `tests/pains.md` tells the stories."""

import pytest

from tests.api.conftest import Site
from tests.waiting import wait_until


def test_an_app_carries_one_finalizer_of_ours_and_no_annotation(site: Site) -> None:
    with site.operator():
        site.apply()
        site.until("Ready", "True", "Running")
        site.apply(suspend=True)
        site.until("Ready", "False", "Suspended")
        metadata = site.app()["metadata"]
        assert metadata["finalizers"] == ["holdfast.dev/release"]
        assert "annotations" not in metadata
        writers = {(one["manager"], one.get("subresource")) for one in metadata["managedFields"]}
        assert len([one for one in writers if one[1] == "status"]) == 1


@pytest.mark.long
def test_two_acting_operators_make_one_driver_for_each_attempt(site: Site) -> None:
    with site.operator(), site.operator():
        site.apply()
        site.until("Ready", "True", "Running")
        site.apply(runtime={"checkpoint": {"location": "s3a://bucket/ads"}, "image": "other"})
        wait_until(lambda: site.app()["status"].get("attempt") == 2, 30, "a second attempt")
        site.until("Ready", "True", "Running")
    assert len(site.kubelet.drivers) == 2
    assert len(set(site.kubelet.drivers.values())) == 2
