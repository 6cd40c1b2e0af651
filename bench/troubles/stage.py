"""The stage of all troubles: a namespace with running apps, and what is asked about them.

Apps, kubelets and drivers are those of the tests. Must not know any trouble.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from bench.troubles.promises import Promise
from tests.api.admin import Admin, RefusedError, install_crd
from tests.api.conftest import Site, opened
from tests.api.plane import Plane
from tests.waiting import wait_until

APP_NAMES = tuple(f"app-{number}" for number in range(4))
IMAGE: Any = {"checkpoint": {"location": "s3a://bucket/ads"}, "image": "other"}
"""A change for which an attempt is started anew."""

_WELL, _SERVER, _PROBED_EVERY = 200, 500, 0.2


@contextmanager
def stage(directory: Path) -> Iterator[Site]:
    """A control plane of its own, and a namespace on it."""
    with Plane() as plane:
        install_crd(Admin(plane))
        with opened(plane, directory) as site:
            yield site


def all_run(site: Site, seconds: float = 120) -> None:
    """Apply the apps, and wait until all of them are Ready."""
    for name in APP_NAMES:
        site.apply(name)
    wait_until(lambda: all_settled(site), seconds, "all apps run")


def all_settled(site: Site) -> bool:
    """Whether all of them run, by the status of their newest generations."""
    return all(settled(site, name) for name in APP_NAMES)


def settled(site: Site, name: str) -> bool:
    """Whether this app runs, by the status of its newest generation."""
    app = site.app(name)
    observed = (app.get("status") or {}).get("observedGeneration")
    return observed == app["metadata"]["generation"] and site.condition("Ready", name) == ("True", "Running")


def attempts(site: Site) -> dict[str, int]:
    """App -> the number of its attempt."""
    return {name: site.app(name)["status"]["attempt"] for name in APP_NAMES}


def lonely(event: str, site: Site) -> Promise:
    """What holds in every trouble."""
    at_most_one = all(count <= 1 for count in site.kubelet.most_alive.values())
    return Promise(event, "there are never two drivers of an app", held=at_most_one)


def insist(call: Callable[[], object], seconds: float = 120) -> int:
    """Make this call as a user would, again and again while the API server fails; return how often it failed."""
    deadline, failures = time.monotonic() + seconds, 0
    while True:
        try:
            call()
        except (RefusedError, requests.RequestException) as error:
            if (isinstance(error, RefusedError) and error.status < _SERVER) or time.monotonic() > deadline:
                raise
            failures += 1
            time.sleep(0.1)
        else:
            return failures


def health(port: int) -> tuple[int, str, float]:
    """The status, the words and the seconds of the operator's probe; 0: no answer."""
    began = time.monotonic()
    try:
        with requests.Session() as session:
            session.trust_env = False
            answer = session.get(f"http://127.0.0.1:{port}/healthz", timeout=10)
    except requests.RequestException as error:
        return 0, type(error).__name__, time.monotonic() - began
    return answer.status_code, answer.text, time.monotonic() - began


def well(port: int) -> bool:
    """Whether the probe says so."""
    return health(port)[0] == _WELL


def probed(port: int, seconds: float) -> str:
    """All that the probe says for so long."""
    answers, deadline = dict[str, None](), time.monotonic() + seconds
    while time.monotonic() < deadline:
        status, text, _ = health(port)
        answers[f"{status} {text}" if status else "no answer"] = None
        time.sleep(_PROBED_EVERY)
    return ", ".join(answers)
