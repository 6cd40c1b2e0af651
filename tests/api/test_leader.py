"""Two operators, one lease: one acts, however busy it is; when it dies or loses the lease the other takes over."""

import time

from tests.api.conftest import Site
from tests.waiting import wait_until

HAND_OVER = 10.0


def holder(site: Site) -> str:
    lease = site.admin.get(f"/apis/coordination.k8s.io/v1/namespaces/{site.namespace}/leases/operator")
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def test_when_the_leader_dies_the_other_operator_takes_over_in_time(site: Site) -> None:
    lease = f"{site.namespace}/operator"
    with site.operator(lease=lease, who="first") as first:
        wait_until(lambda: holder(site) == "first", 30, "the first operator leads")
        with site.operator(lease=lease, who="second"):
            site.apply()
            site.until("Ready", "True", "Running")
            assert holder(site) == "first"
            first.kill()
            died = time.monotonic()
            site.apply(suspend=True)
            site.until("Ready", "False", "Suspended")
            assert holder(site) == "second"
            # What a look and a drain take comes on top of the lease.
            assert time.monotonic() - died < HAND_OVER + 10


def test_a_leader_that_is_busy_keeps_its_lease(site: Site) -> None:
    lease = f"{site.namespace}/operator"
    with site.operator(die="busy:15", lease=lease, who="first"):
        wait_until(lambda: holder(site) == "first", 30, "the first operator leads")
        with site.operator(lease=lease, who="second"):
            site.apply(suspend=True)
            began = time.monotonic()
            # Its loop stands still for longer than it takes to lose a lease.
            site.until("Ready", "False", "Suspended")
            assert time.monotonic() - began > 14
            assert holder(site) == "first"


def test_a_leader_whose_lease_was_taken_ends_in_time_though_it_is_busy_and_that_is_an_event(site: Site) -> None:
    lease = f"{site.namespace}/operator"
    path = f"/apis/coordination.k8s.io/v1/namespaces/{site.namespace}/leases/operator"
    with site.operator(die="busy:60", lease=lease, who="first") as first:
        wait_until(lambda: holder(site) == "first", 30, "the first operator leads")
        site.apply(suspend=True)
        site.admin.patch(path, {"spec": {"holderIdentity": "thief"}})
        assert first.wait(HAND_OVER) == 1
    assert "another operator may act, so this one ends" in site.log.read_text()
    with site.operator(lease=lease, who="second"):
        site.until("Ready", "False", "Suspended")
        events = site.admin.items(f"/apis/events.k8s.io/v1/namespaces/{site.namespace}/events")
        (told,) = [one["note"] for one in events if one["reason"] == "LeaseTaken" and "second" in one["note"]]
        assert told.startswith("second acts; thief held the lease before, and did not renew it for ")
