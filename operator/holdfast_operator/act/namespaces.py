"""The namespaces that this operator looks after: of releases whose namespaces overlap, only one acts in each.

A namespace with apps has a ConfigMap that says which release looks after it (`lease.NAMESPACE`). It is taken before the
first app there is looked at, and deleted when the last one is gone. Who does not hold it leaves the apps alone, and
says so where it is its own: in its log and in an event of its Lease. The replicas of a release are one here: their
Lease decides between them. Must not know what is done for an app.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast_operator.act.actions import EventWriter
from holdfast_operator.act.lease import LEADER, NAMESPACE, Lease, LeaseCandidate, LeaseTakenError, reference
from holdfast_operator.cluster import Cluster
from holdfast_operator.decide.facts import AppKey

_LOG = logging.getLogger("holdfast")
NAME = "holdfast-operator"
"""Of the ConfigMap. No app has one of this name: theirs end in a digest, a number or what is in them."""


@dataclass(slots=True)
class NamespaceLeases:
    """Who looks after which namespace, as one operator sees it."""

    cluster: Cluster
    release: str | None
    """The Lease of the release, `namespace/name`; None: there is no other release, and all namespaces are its own."""
    events: EventWriter
    in_use: Callable[[str], bool]
    """Returns whether a namespace has apps."""
    changed: Callable[[AppKey], None]
    """Requests a look."""
    _leases: dict[str, Lease] = field(default_factory=dict)
    _waiting: dict[str, dict[AppKey, None]] = field(default_factory=dict)
    """Namespace -> its apps that wait to be looked at, the first first."""
    _wanted: "asyncio.Queue[str]" = field(default_factory=asyncio.Queue)

    def held(self, key: AppKey) -> bool:
        """Return whether to look after this app; if not yet, a look at it is requested once it is so."""
        if self.left(key.namespace) > 0:
            return True
        if key.namespace not in self._leases and key.namespace not in self._waiting:
            self._wanted.put_nowait(key.namespace)
        self._waiting.setdefault(key.namespace, {})[key] = None
        return False

    def left(self, namespace: str | None) -> float:
        """Return for how many seconds more this operator may write there; not positive: it may not."""
        if self.release is None or namespace is None:
            return math.inf
        lease = self._leases.get(namespace)
        return -math.inf if lease is None else lease.left()

    def left_alone(self) -> int:
        """Return how many namespaces with apps another release looks after."""
        return sum(bool(lease.other) for lease in self._leases.values())

    async def run(self) -> None:
        """Take and renew what is wanted, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._look_after(await self._wanted.get()))

    async def _look_after(self, namespace: str) -> None:
        """Hold a namespace for as long as it has apps."""
        candidate = LeaseCandidate(namespace, NAME, str(self.release))
        lease = self._leases[namespace] = Lease(
            self.cluster, candidate, _now, lambda: self.events.clock() / 1000, NAMESPACE
        )
        other = ""
        while self.in_use(namespace):
            try:
                succeeded = await lease.tried()
            except LeaseTakenError as error:
                _LOG.warning("namespace %s: ConfigMap %s: %s", namespace, NAME, error)
                continue
            if lease.left() > 0:
                self._wake(namespace)
            if lease.other != other:
                other = lease.other
                await self._say(namespace, other)
            await asyncio.sleep((NAMESPACE if succeeded or other else LEADER).retry)
        del self._leases[namespace]
        self._wake(namespace)
        await lease.end()

    def _wake(self, namespace: str) -> None:
        for key in self._waiting.pop(namespace, ()):
            self.changed(key)

    async def _say(self, namespace: str, other: str) -> None:
        """Say whose a namespace is now; empty: this release's."""
        if not other:
            _LOG.info("namespace %s is looked after by this release from now on", namespace)
            return
        message = (
            f"the apps in namespace {namespace} are left alone, as release {other} looks after them: ConfigMap {NAME} "
            f"there says so. Let one of the releases not watch {namespace}; if the other is gone for good, this one "
            f"takes over {NAMESPACE.duration:.0f} s after it last renewed that ConfigMap"
        )
        of, about = reference(*str(self.release).split("/", 1)), f"{namespace} {other}"
        await self.events.tell(of, "NamespaceTaken", message, warning=True, about=about)


def _now() -> float:
    return asyncio.get_running_loop().time()
