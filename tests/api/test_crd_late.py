"""An operator that is there before the CRD: it waits, is well meanwhile, and then does its work."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.api.admin import install_crd
from tests.api.conftest import Site, opened
from tests.api.plane import Plane
from tests.kafka.broker import free_ports
from tests.waiting import patience, wait_until


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """On an API server of its own, which has no CRD."""
    with Plane() as bare, opened(bare, tmp_path) as made:
        yield made


def test_an_operator_started_before_the_crd_runs_later_apps(site: Site) -> None:
    (port,) = free_ports(1)
    with site.operator(port=port):
        wait_until(lambda: "waiting for the CRD streamapps.holdfast.dev" in site.log.read_text(), 30, "it waits")
        assert requests.get(f"http://127.0.0.1:{port}/healthz", timeout=patience(10)).text == "ok"
        install_crd(site.admin)
        site.apply()
        wait_until(lambda: len(site.alive()) == 1, 60, "the driver of the app is made")
