"""Leases: only one of several operators acts; if it dies, another takes over after a while.

`LEADER` is the Lease of a release, which one of its replicas holds. `NAMESPACE` is a ConfigMap in a namespace with
apps, which one of several releases holds, and all its replicas alike.

An operator that could not renew its lease for some seconds writes nothing, as another may be about to take it. It need
not end: if it renews the version that it wrote itself, nobody else has held the lease in between, and it goes on. It
gives up only when another one holds it. Whether another's lease has expired is found by our own clock, since when
the lease has not changed; clocks of hosts are never compared. Who could not look at it for some seconds counts anew:
what kept it from looking (an API server that hung, a host that stood still) may have kept the holder from renewing,
and a healthy operator would end for it. (The client library's own election can't create a Lease in version 37: it
sends `pretty=True`.) Must not know what leading means.
"""

import asyncio
import logging
import math
import re
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.api_answers import ApiConflictError, ApiRefusedError, NamespaceEndsError
from holdfast.errors import HoldfastError, WorldChangeError
from holdfast.one_line import one_line
from holdfast.trees import Tree
from holdfast_operator.cluster import CONFIG_MAP, LEASE, ApiKind, Cluster

_LOG = logging.getLogger("holdfast")


@dataclass(frozen=True, slots=True)
class LeaseKind:
    """The object of a lease, and its times in seconds."""

    object: ApiKind
    content: str
    """The field of the object that says who holds it."""
    duration: float
    """After which another may take it."""
    confidence: float
    """For which a renewal lets its holder write."""
    retry: float
    """Between tries."""
    needed: bool = True
    """Whether it is also needed where no operator can create it."""


LEADER = LeaseKind(LEASE, "spec", 15.0, 10.0, 2.0)
"""Its times are the control plane's own: what that lives through, the operator does."""
NAMESPACE = LeaseKind(CONFIG_MAP, "data", 120.0, 60.0, 20.0, needed=False)


@dataclass(frozen=True, slots=True)
class LeaseCandidate:
    """A lease, and the operator that wants it."""

    namespace: str
    name: str
    who: str


def reference(namespace: str, name: str) -> dict[str, str]:
    """Return what names a release's Lease in an event."""
    return {"apiVersion": LEASE.api, "kind": LEASE.name, "namespace": namespace, "name": name}


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
    kind: LeaseKind = LEADER
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

    @property
    def other(self) -> str:
        """Return who else held it when this operator last tried to take it; empty: nobody."""
        return str(self._seen[0] or "")

    async def take(self) -> None:
        """Wait until the lease is held."""
        while not await self.tried():
            await asyncio.sleep(self.kind.retry)

    async def keep(self) -> None:
        """Renew the lease until `LeaseTakenError`."""
        confident = True
        while True:
            await asyncio.sleep(self.kind.retry)
            await self.tried()
            if confident != (self.left() > 0):
                confident = not confident
                news = "is renewed again" if confident else "could not be renewed: nothing is written until it is"
                _LOG.warning("lease %s/%s %s", self.candidate.namespace, self.candidate.name, news)

    async def end(self) -> None:
        """Delete the lease if it is held; if that fails, others wait until it has expired."""
        if self._held is not None and self.left() > 0:
            metadata = self._held["metadata"]
            with suppress(HoldfastError):
                await self.cluster.delete(
                    self.kind.object, self.candidate.namespace, self.candidate.name, metadata["uid"]
                )

    async def tried(self) -> bool:
        """Take or renew the lease; return whether that succeeded. A try that hangs leaves time for another one."""
        began, confidence = self.clock(), self.kind.confidence
        try:
            async with asyncio.timeout(confidence / 2 if self.left() > 0 else confidence):
                succeeded = await (self._taken() if self._held is None else self._renewed(self._held))
        except LeaseTakenError:
            self._held, self._until = None, -math.inf
            raise
        except (HoldfastError, TimeoutError) as error:
            self._failed(one_line(str(error) or type(error).__name__))
            return False
        self._trouble = ""
        if succeeded:
            self._until, self._seen = began + confidence, (None, None)
        return succeeded

    def _failed(self, trouble: str) -> None:
        """Log what is wrong, once: who has no right to the lease would otherwise wait for it without a word."""
        if trouble != self._trouble:
            _LOG.warning("lease %s/%s: %s; it is tried again", self.candidate.namespace, self.candidate.name, trouble)
        self._trouble = trouble

    async def _taken(self) -> bool:
        namespace, name, who = self.candidate.namespace, self.candidate.name, self.candidate.who
        tree = await self.cluster.get(self.kind.object, namespace, name)
        if tree is None:
            kind = self.kind.object
            tree = {"apiVersion": kind.api, "kind": kind.name, "metadata": {"name": name, "namespace": namespace}}
            self.story = f"{who} acts; there was no lease"
            return await self._written(self.cluster.create(kind, namespace, self._renewal(tree)))
        spec, now, before = tree.get(self.kind.content) or {}, self.clock(), self._looked
        holder, renewed = one_line(spec.get("holderIdentity") or ""), spec.get("renewTime")
        if (holder, renewed) != self._seen or now - before > self.kind.confidence:
            self._seen, self._since = (holder, renewed), now
        self._looked, silent = now, now - self._since
        if holder and holder != who and silent < self.kind.duration:
            self._until = -math.inf
            return False
        self.story = f"{who} acts; {holder or 'nobody'} held the lease before, and did not renew it for {silent:.0f} s"
        if holder == who:
            self.story = f"{who} acts; it was started again, and held the lease before"
        return await self._written(self.cluster.replace(self.kind.object, namespace, self._renewal(tree)))

    async def _written(self, write: Awaitable[Tree | None]) -> bool:
        """Return whether the lease is held by this write; so is one that nobody can write, where none is needed."""
        try:
            self._held = await write
        except (ApiRefusedError, NamespaceEndsError):
            if self.kind.needed:
                raise
            return True
        return self._held is not None

    async def _renewed(self, held: Tree) -> bool:
        """Renew over the version that was written last; what somebody else changed but the holder is put up with."""
        try:
            written = await self.cluster.replace(self.kind.object, self.candidate.namespace, self._renewal(held))
        except ApiConflictError:
            self._until = -math.inf  # until it was read: another operator may be about to act
            return await self._renewed(await self._still_ours(held))
        if written is None:
            message = "it was deleted, so another operator may hold a new one"
            raise LeaseTakenError(message)
        self._held = written
        return True

    async def _still_ours(self, before: Tree) -> Tree:
        """Return the lease after a conflict: a renewal of ours may have had no answer."""
        tree = await self.cluster.get(self.kind.object, self.candidate.namespace, self.candidate.name)
        tree = tree or {"metadata": {}}
        spec, lease_fields = tree.get(self.kind.content) or {}, ("holderIdentity", "acquireTime", "leaseTransitions")
        same = all(spec.get(name) == before[self.kind.content].get(name) for name in lease_fields)
        if not same or tree["metadata"].get("uid") != before["metadata"]["uid"]:
            message = f"{one_line(spec.get('holderIdentity') or 'nobody')} holds it now"
            raise LeaseTakenError(message)
        return tree

    def _renewal(self, tree: Tree) -> Tree:
        """Return the object of the lease, held from now on."""
        before = tree.get(self.kind.content) or {}
        same = before.get("holderIdentity") == self.candidate.who
        now = datetime.fromtimestamp(self.time_of_day(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        content: Tree = {
            "holderIdentity": self.candidate.who,
            "leaseDurationSeconds": int(self.kind.duration),
            "acquireTime": before.get("acquireTime", now) if same else now,
            "renewTime": now,
            "leaseTransitions": _number(before.get("leaseTransitions")) + (0 if same else 1),
        }
        texts = {name: str(value) for name, value in content.items()}  # a ConfigMap holds nothing else
        return {**tree, self.kind.content: content if self.kind.object is LEASE else texts}


def _number(value: object) -> int:
    """Return the number that was counted to; anyone who may write the object may have written something else."""
    text = str(value)
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else 0


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
