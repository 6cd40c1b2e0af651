"""Two operators, one lease: one acts; when it dies the other takes over."""

import time

from tests.api.conftest import Site
from tests.kafka.broker import wait_until

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
