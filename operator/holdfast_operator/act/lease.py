"""The leader's Lease: only one of several operators writes; if it dies, another takes over within seconds.

An operator that could not renew its lease for some seconds writes nothing, as another may be about to take it. It need
not end: if it renews the version that it wrote itself, nobody else has held the lease in between, and it goes on. It
ends only when another one holds the lease. Whether another's lease has expired is found by our own clock, since when
the lease has not changed; clocks of hosts are never compared. Who could not look at it for some seconds counts anew:
what kept it from looking (an API server that hung, a host that stood still) may have kept the holder from renewing,
and a healthy operator would end for it. (The client library's own election can't create a Lease in version 37: it
sends `pretty=True`.) Must not know what leading means.
"""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.api_answers import ApiConflictError
from holdfast.errors import HoldfastError, WorldChangeError
from holdfast.one_line import one_line
from holdfast.trees import Tree
from holdfast_operator.cluster import LEASE, Cluster

_LOG = logging.getLogger("holdfast")
DURATION, CONFIDENCE, RETRY = 15.0, 10.0, 2.0
"""Seconds: after which another may take the lease; for which a renewal lets its holder write; between tries. As the
control plane's own: what it lives through, the operator does."""


@dataclass(frozen=True, slots=True)
class LeaseCandidate:
    """A lease, and the operator that wants it."""

    namespace: str
    name: str
    who: str


class LeaseTakenError(WorldChangeError):
    """Another operator holds the lease, or may have held it."""


@dataclass(slots=True)
class Lease:
    """The lease, as one operator sees it."""

    cluster: Cluster
    candidate: LeaseCandidate
    clock: Callable[[], float]
    """Returns seconds; `left` is asked by the same clock."""
    time_of_day: Callable[[], float] = time.time
    """Returns seconds since 1970, for people who read the lease."""
    story: str = ""
    """From whom it was taken, and why."""
    _held: Tree | None = None
    """As it was written last."""
    _until: float = -math.inf
    _seen: tuple[object, object] = (None, None)
    _since: float = -math.inf
    _looked: float = -math.inf
    """When another's lease was seen last."""
    _trouble: str = ""
    """Why the last try failed."""

    def left(self) -> float:
        """Return for how many seconds more this operator may write; not positive: it may not."""
        return self._until - self.clock()

    async def take(self) -> None:
        """Wait until the lease is held."""
        while not await self._tried(self._taken):
            await asyncio.sleep(RETRY)

    async def keep(self) -> None:
        """Renew the lease until `LeaseTakenError`."""
        confident = True
        while True:
            await asyncio.sleep(RETRY)
            await self._tried(self._renewed)
            if confident != (self.left() > 0):
                confident = not confident
                news = "is renewed again" if confident else "could not be renewed: nothing is written until it is"
                _LOG.warning("lease %s/%s %s", self.candidate.namespace, self.candidate.name, news)

    async def _tried(self, attempt: Callable[[], Awaitable[bool]]) -> bool:
        """Return whether the attempt succeeded. A try that hangs leaves time for another one."""
        began = self.clock()
        try:
            async with asyncio.timeout(CONFIDENCE / 2 if self.left() > 0 else CONFIDENCE):
                succeeded = await attempt()
        except LeaseTakenError:
            self._until = -math.inf
            raise
        except (HoldfastError, TimeoutError) as error:
            self._failed(one_line(str(error) or type(error).__name__))
            return False
        self._trouble = ""
        if succeeded:
            self._until = began + CONFIDENCE
        return succeeded

    def _failed(self, trouble: str) -> None:
        """Log what is wrong, once: who has no right to the lease would otherwise wait for it without a word."""
        if trouble != self._trouble:
            _LOG.warning("lease %s/%s: %s; it is tried again", self.candidate.namespace, self.candidate.name, trouble)
        self._trouble = trouble

    async def _taken(self) -> bool:
        namespace, name, who = self.candidate.namespace, self.candidate.name, self.candidate.who
        tree = await self.cluster.get(LEASE, namespace, name)
        if tree is None:
            metadata = {"name": name, "namespace": namespace}
            tree = {"apiVersion": LEASE.api, "kind": LEASE.name, "metadata": metadata, "spec": self._spec({})}
            self._held = await self.cluster.create(LEASE, namespace, tree)
            self.story = f"{who} acts; there was no lease"
            return True
        spec = tree.get("spec") or {}
        holder = spec.get("holderIdentity")
        now, before = self.clock(), self._looked
        if (holder, spec.get("renewTime")) != self._seen or now - before > CONFIDENCE:
            self._seen, self._since = (holder, spec.get("renewTime")), now
        self._looked, silent = now, now - self._since
        if holder and holder != who and silent < DURATION:
            return False
        self._held = await self.cluster.replace(LEASE, namespace, {**tree, "spec": self._spec(spec)})
        self.story = f"{who} acts; {holder or 'nobody'} held the lease before, and did not renew it for {silent:.0f} s"
        if holder == who:
            self.story = f"{who} acts; it was started again, and held the lease before"
        return self._held is not None

    async def _renewed(self) -> bool:
        """Renew over the version that was written last; what somebody else changed but the holder is put up with."""
        assert self._held is not None  # noqa: S101 - it was taken
        try:
            renewed = {**self._held, "spec": self._spec(self._held["spec"])}
            written = await self.cluster.replace(LEASE, self.candidate.namespace, renewed)
        except ApiConflictError:
            self._held = await self._still_ours(self._held)
            return await self._renewed()
        if written is None:
            message = "it was deleted, so another operator may hold a new one"
            raise LeaseTakenError(message)
        self._held = written
        return True

    async def _still_ours(self, before: Tree) -> Tree:
        """Return the lease after a conflict: a renewal of ours may have had no answer."""
        tree = await self.cluster.get(LEASE, self.candidate.namespace, self.candidate.name) or {"metadata": {}}
        spec = tree.get("spec") or {}
        lease_fields = ("holderIdentity", "acquireTime", "leaseTransitions")
        same = all(spec.get(name) == before["spec"].get(name) for name in lease_fields)
        if not same or tree["metadata"].get("uid") != before["metadata"]["uid"]:
            message = f"{spec.get('holderIdentity') or 'nobody'} holds it now"
            raise LeaseTakenError(message)
        return tree

    def _spec(self, before: Tree) -> Tree:
        same = before.get("holderIdentity") == self.candidate.who
        now = datetime.fromtimestamp(self.time_of_day(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self.candidate.who,
            "leaseDurationSeconds": int(DURATION),
            "acquireTime": before.get("acquireTime", now) if same else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if same else 1),
        }


Connect = Callable[[], AbstractAsyncContextManager[Cluster]]


async def lease_held(candidate: LeaseCandidate, connected: Connect, lost: Callable[[], None]) -> Lease:
    """Wait until the lease is held; from then on a thread keeps it, however busy the operator is.

    The thread has an event loop and a connection of its own, which `connected` opens. It calls `lost` when another
    operator holds the lease, as its last act. (An operator that hangs answers no probe, and the kubelet ends it.)
    """
    loop = asyncio.get_running_loop()
    first_lease: asyncio.Future[Lease] = loop.create_future()

    async def keep() -> None:
        async with connected() as cluster:
            lease = Lease(cluster, candidate, time.monotonic)
            await lease.take()
            loop.call_soon_threadsafe(first_lease.set_result, lease)
            await lease.keep()

    def kept() -> None:
        try:
            asyncio.run(keep())
        except LeaseTakenError as error:
            _LOG.error("lease %s/%s: %s, so this operator ends", candidate.namespace, candidate.name, error)
        except Exception:  # noqa: BLE001 - whatever it was, the lease is not renewed any more
            _LOG.exception(
                "lease %s/%s is not renewed any more, so this operator ends", candidate.namespace, candidate.name
            )
        lost()

    threading.Thread(target=kept, name="lease", daemon=True).start()
    return await first_lease
