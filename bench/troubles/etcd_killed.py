"""Etcd is killed and comes back with its data: what runs runs on, and edits that were under way are heeded.

Once for a moment, once for longer than the operator's lease lasts. Must not lose what etcd had written.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.troubles.promises import Promise, figure, within
from bench.troubles.stage import (
    APP_NAMES,
    IMAGE,
    all_run,
    all_settled,
    attempts,
    insist,
    lonely,
    probed,
    settled,
    stage,
    well,
)
from tests.api.admin import APPS
from tests.api.conftest import Site
from tests.forked import ForkedProcess
from tests.kafka.broker import free_ports
from tests.waiting import wait_until

_AWAY = (2.0, 30.0)
"""Seconds: shorter than a lease is trusted, and longer than it lasts."""
_BACK_IN = 60.0
"""Seconds: the API server itself needs a part of these to find etcd again."""
_ALWAYS_EDITED = APP_NAMES[3]


def trouble(directory: Path) -> Iterator[Promise]:
    """Kill etcd twice."""
    (port,) = free_ports(1)
    with stage(directory) as site, site.operator(lease=f"{site.namespace}/operator", who="only", port=port) as operator:
        all_run(site)
        for edited, seconds in zip(APP_NAMES, _AWAY, strict=False):
            yield from _killed(site, operator, port, edited, seconds)


def _killed(site: Site, operator: ForkedProcess, port: int, edited: str, seconds: float) -> Iterator[Promise]:
    event, before, drivers = f"etcd killed for {seconds:g} s, amid edits", attempts(site), len(site.kubelet.drivers)
    editor = _Editor(site)
    change = threading.Thread(target=insist, args=(lambda: site.apply(edited, runtime=IMAGE),))
    with editor.editing():
        site.plane.kill_etcd()
        change.start()
        answers = probed(port, seconds)
        site.plane.restart_etcd()
        back = time.monotonic()
        change.join()
        delay = time.monotonic() - back
    words = f"{delay:.1f} s after etcd's return; {editor.refused} edits failed, and were made again"
    yield figure(event, f"an app's image, changed while etcd is away, is taken {words}")
    yield figure(event, f"probe meanwhile: {answers}")
    yield within(
        event, "that app runs by its change, from etcd's return", _BACK_IN, lambda: settled(site, edited), back
    )
    yield within(event, "the newest edits of all apps are seen, and all run", _BACK_IN, lambda: all_settled(site), back)
    yield Promise(event, "of the edits that were answered none is lost", editor.kept(), f"{editor.last} edits")
    expected = {name: number + (name == edited) for name, number in before.items()}
    made = len(site.kubelet.drivers) - drivers
    yield Promise(
        event, "one attempt was begun, of the changed app", attempts(site) == expected and made == 1, f"{made}"
    )
    yield lonely(event, site)
    yield Promise(event, "the operator is the same process, and well", operator.poll() is None and well(port))


@dataclass(slots=True)
class _Editor:
    """Edits an app all the time, in a way that needs no new attempt."""

    site: Site
    last: int = 0
    """The last edit that was answered."""
    refused: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def editing(self) -> Iterator[None]:
        """Edit inside this."""
        thread = threading.Thread(target=self._edit)
        thread.start()
        try:
            wait_until(lambda: self.last > 0, 30, "the first edit is taken")
            yield
        finally:
            self._over.set()
            thread.join()

    def kept(self) -> bool:
        """Whether its last edit is what the API server has."""
        return bool(self.site.app(_ALWAYS_EDITED)["spec"]["restart"]["resetAfter"] == f"{self.last}s")

    def _edit(self) -> None:
        path = f"{APPS.format(self.site.namespace)}/{_ALWAYS_EDITED}"
        while not self._over.is_set():
            patch = {"spec": {"restart": {"resetAfter": f"{self.last + 1}s"}}}
            self.refused += insist(partial(self.site.admin.patch, path, patch))
            self.last += 1
