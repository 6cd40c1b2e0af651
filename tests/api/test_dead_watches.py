"""Watches that die without a word: what vanished meanwhile is found out, and an operator that is blind ends."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast_operator.service.monitoring import LONGEST_SILENCE
from tests.api.admin import APPS, PODS, install_crd
from tests.api.conftest import Site, opened
from tests.api.plane import Plane
from tests.api.proxy import Proxy
from tests.waiting import wait_until

# Connections of this process are cut when the server dies, and one may be collected before its client has closed it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/streamapps.holdfast.dev"


@pytest.fixture(scope="module")
def own_plane() -> Iterator[Plane]:
    """An API server that is restarted, and whose CRD goes."""
    with Plane() as started:
        yield started


@pytest.fixture
def site(own_plane: Plane, tmp_path: Path) -> Iterator[Site]:
    with opened(own_plane, tmp_path) as made:
        if not made.admin.get(CRD):
            install_crd(made.admin)
        yield made


def delete_unnoticed(site: Site, proxy: Proxy) -> None:
    """Delete the driver's pod while nobody is told, and begin the API server's watch window after that."""
    proxy.silence()
    (driver,) = site.alive()
    site.admin.delete(f"{PODS.format(site.namespace)}/{driver}", grace=0)
    site.plane.restart_api()
    proxy.drop()


def test_a_driver_deleted_while_no_watch_lived_gets_a_successor(site: Site) -> None:
    with Proxy(site.plane.port) as proxy, site.operator(proxy=proxy):
        site.apply()
        site.until("Ready", "True", "Running")
        (before,) = site.alive()
        delete_unnoticed(site, proxy)
        wait_until(lambda: site.alive() not in ([], [before]), 60, "the next attempt is made")
        site.until("Ready", "True", "Running")
        path = f"{APPS.format(site.namespace)}/ads"
        delete_unnoticed(site, proxy)
        site.admin.delete(path)
        wait_until(lambda: not site.app(), 60, "the app goes though its driver's end was not told")


@pytest.mark.long
def test_an_operator_without_its_crd_ends_and_says_why(site: Site) -> None:
    with site.operator() as operator:
        site.apply()
        wait_until(lambda: len(site.alive()) == 1, 60, "the driver is made")
        site.admin.delete(f"{APPS.format(site.namespace)}/ads")
        wait_until(lambda: not site.app(), 60, "the app is gone")
        site.admin.delete(CRD)
        # The server ends the watch at once, or leaves it silent for good.
        assert operator.wait(LONGEST_SILENCE + 30) == 1
    assert re.search("the operator ends, as its (watches|signs of life) ended", site.log.read_text())
