"""Two operators: with one lease, one acts, however busy it is; when it dies or is cut off the other takes over.

With a lease each they are two releases whose namespaces overlap: one looks after a namespace, and the other says so.
"""

import time
from pathlib import Path

from holdfast_operator.act.namespaces import NAME
from tests.api.admin import CONFIG_MAPS, EVENTS
from tests.api.conftest import Site, opened
from tests.api.plane import Plane
from tests.api.proxy import Proxy
from tests.waiting import patience, wait_until

HAND_OVER = 17.0
"""Seconds: a lease, and a try to take it."""


def holder(site: Site) -> str:
    lease = site.admin.get(f"/apis/coordination.k8s.io/v1/namespaces/{site.namespace}/leases/operator")
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def test_the_other_operator_takes_over_from_a_dead_leader(site: Site) -> None:
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
            assert time.monotonic() - died < HAND_OVER + patience(10)


def test_a_leader_that_is_busy_keeps_its_lease(site: Site) -> None:
    lease = f"{site.namespace}/operator"
    with site.operator(die="busy:18", lease=lease, who="first"):
        wait_until(lambda: holder(site) == "first", 30, "the first operator leads")
        with site.operator(lease=lease, who="second"):
            site.apply(suspend=True)
            began = time.monotonic()
            # Its loop stands still for longer than it takes to lose a lease.
            site.until("Ready", "False", "Suspended")
            assert time.monotonic() - began > 17
            assert holder(site) == "first"


def test_a_busy_leader_without_its_lease_ends_with_an_event(site: Site) -> None:
    lease = f"{site.namespace}/operator"
    path = f"/apis/coordination.k8s.io/v1/namespaces/{site.namespace}/leases/operator"
    with site.operator(die="busy:60", lease=lease, who="first") as first:
        wait_until(lambda: holder(site) == "first", 30, "the first operator leads")
        site.apply(suspend=True)
        site.admin.patch(path, {"spec": {"holderIdentity": "thief"}})
        assert first.wait(HAND_OVER) == 1
    assert "thief holds it now, so this operator ends" in site.log.read_text()
    with site.operator(lease=lease, who="second"):
        site.until("Ready", "False", "Suspended")
        events = site.admin.items(f"/apis/events.k8s.io/v1/namespaces/{site.namespace}/events")
        (note,) = [one["note"] for one in events if one["reason"] == "LeaseTaken" and "second" in one["note"]]
        assert note.startswith("second acts; thief held the lease before, and did not renew it for ")


def test_a_leader_cut_off_for_a_while_pauses_its_writes(site: Site) -> None:
    lease = f"{site.namespace}/operator"
    path = f"/apis/coordination.k8s.io/v1/namespaces/{site.namespace}/leases/operator"
    with Proxy(site.plane.port) as proxy, site.operator(lease=lease, who="first", proxy=proxy) as first:
        site.apply()
        site.until("Ready", "True", "Running")
        before = site.admin.get(path)["spec"]
        proxy.cut()
        site.apply(suspend=True)
        wait_until(lambda: "nothing is written until it is" in site.log.read_text(), 20, "it trusts its lease no more")
        proxy.mend()
        site.until("Ready", "False", "Suspended", seconds=60)
        after = site.admin.get(path)["spec"]
        assert first.poll() is None
        assert (after["acquireTime"], after["leaseTransitions"]) == (before["acquireTime"], before["leaseTransitions"])


def test_a_leader_cut_off_ends_once_another_took_over(site: Site) -> None:
    lease = f"{site.namespace}/operator"
    with (
        Proxy(site.plane.port) as proxy,
        site.operator(lease=lease, who="first", proxy=proxy) as first,
    ):
        wait_until(lambda: holder(site) == "first", 30, "the first operator leads")
        with site.operator(lease=lease, who="second"):
            site.apply()
            site.until("Ready", "True", "Running")
            proxy.cut()
            wait_until(lambda: holder(site) == "second", 30, "the second operator leads")
            assert first.poll() is None
            site.apply(suspend=True)
            site.until("Ready", "False", "Suspended")
            proxy.mend()
            assert first.wait(patience(30)) == 1
    assert "second holds it now, so this operator ends" in site.log.read_text()


def looked_after_by(site: Site) -> str:
    config_map = site.admin.get(f"{CONFIG_MAPS.format(site.namespace)}/{NAME}")
    return str((config_map.get("data") or {}).get("holderIdentity") or "")


def test_of_two_overlapping_releases_one_looks_after_a_namespace(site: Site, plane: Plane, tmp_path: Path) -> None:
    """Both may act in the namespace of `site`; the second release is at home in that of `green`."""
    (tmp_path / "green").mkdir()
    with opened(plane, tmp_path / "green") as green, site.operator(lease=f"{site.namespace}/operator", who="b"):
        site.apply()
        site.until("Ready", "True", "Running")
        assert looked_after_by(site) == f"{site.namespace}/operator"
        with site.operator(lease=f"{green.namespace}/operator", who="g"):
            green.told("NamespaceTaken")
            notes = [
                one for one in site.admin.items(EVENTS.format(green.namespace)) if one["reason"] == "NamespaceTaken"
            ]
            assert f"release {site.namespace}/operator looks after them" in notes[0]["note"]
            drivers = site.alive()
            site.apply(suspend=True)
            site.until("Ready", "False", "Suspended")
            site.apply(suspend=False)
            site.until("Ready", "True", "Running")
            assert len(drivers) == len(site.alive()) == 1
