"""A trial before a drain, and going back, on a real API server: its answers, its patches, its ConfigMaps."""

from typing import Any

from holdfast.protocol.names import TRIAL_LABEL
from tests.api.conftest import Site
from tests.operator.apps import TREE
from tests.waiting import wait_until


def changed(**runtime: Any) -> dict[str, Any]:
    return {"runtime": {**TREE["spec"]["runtime"], **runtime}}


def trials(site: Site) -> list[str]:
    return [pod["metadata"]["name"] for pod in site.pods() if TRIAL_LABEL in pod["metadata"]["labels"]]


def attempt(site: Site) -> int:
    return int((site.app().get("status") or {}).get("attempt") or 0)


def test_failed_trials_drain_nothing_and_failed_starts_go_back(site: Site) -> None:
    with site.operator():
        site.apply()
        site.until("Ready", "True", "Running")
        before = site.alive()
        site.kubelet.trials = 1
        site.apply(**changed(image="registry/without"))
        site.until("Stalled", "True", "TrialFailed")
        assert (site.alive(), attempt(site)) == (before, 1)
        wait_until(lambda: trials(site) == [], 20, "the end of the trial's pod")

        site.kubelet.healthy = False
        site.apply(**changed(driver={"memory": "2g"}))
        wait_until(lambda: attempt(site) == 2 and len(site.alive()) == 1, 30, "the driver of the second attempt")
        site.kubelet.end(site.alive()[0], 1, '{"failed": "bug", "message": "no such module"}')
        site.kubelet.healthy = True
        site.until("Ready", "False", "RolledBack")
        site.apply()
        site.until("Ready", "True", "Running")
        status = site.app()["status"]
        assert (status["attempt"], status.get("rollback"), status.get("trial")) == (3, None, None)
