"""The leader's Lease: only one of several operators may act; if it dies, another takes over within seconds.

A thread with its own event loop and connection renews it, however busy the operator is, and ends the operator in time
if renewing fails. (An operator that hangs answers no probe, and the kubelet ends it.) Another operator's lease has
expired if it has not changed for long enough on our own clock; clocks of hosts are never compared. (The client
library's own election can't create a Lease in version 37: it sends `pretty=True`.) Must not know what leading means.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from holdfast.errors import HoldfastError
from holdfast_operator.cluster import LEASE, Cluster, ConflictError

_LOG = logging.getLogger("holdfast")
_SECONDS, _RETRY = 8.0, 2.0
_SAFE = _SECONDS - 2.0
"""A leader that could not renew for this long stops acting: another operator may be about to take the lease."""
Connect = Callable[[], AbstractAsyncContextManager[Cluster]]


@dataclass(frozen=True, slots=True)
class LeaseCandidate:
    """A lease, and the operator that wants it."""

    namespace: str
    name: str
    who: str


async def lease_held(place: LeaseCandidate, connected: Connect, lost: Callable[[], None]) -> str:
    """Wait until the lease is held; return a text for the event. `lost` is called when the lease can't be kept.

    `lost` is called in another thread, as its last act. `connected` opens that thread's connection.
    """
    loop = asyncio.get_running_loop()
    taken: asyncio.Future[str] = loop.create_future()

    async def keep() -> None:
        async with connected() as cluster:
            lease = _Lease(cluster, place)
            while not await lease.held():
                await asyncio.sleep(_RETRY)
            loop.call_soon_threadsafe(taken.set_result, lease.story)
            await lease.kept()

    def kept() -> None:
        try:
            asyncio.run(keep())
        except Exception:  # noqa: BLE001 - whatever it was, the lease is not renewed any more
            _LOG.exception("lease %s/%s", place.namespace, place.name)
        _LOG.error(
            "lease %s/%s could not be kept: another operator may act, so this one ends", place.namespace, place.name
        )
        lost()

    threading.Thread(target=kept, name="lease", daemon=True).start()
    return await taken


@dataclass(slots=True)
class _Lease:
    """The lease, as one operator sees it."""

    cluster: Cluster
    place: LeaseCandidate
    story: str = ""
    """From whom it was taken, and why."""
    _seen: tuple[object, object] = (None, None)
    _since: float = field(default_factory=time.monotonic)

    async def kept(self) -> None:
        """Renew until renewing has failed for too long."""
        until = time.monotonic() + _SAFE
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(_RETRY, left))
            began = time.monotonic()
            if await self.held(until - began):
                until = began + _SAFE

    async def held(self, within: float = _SAFE) -> bool:
        """Take or renew the lease; return whether it is ours now."""
        try:
            async with asyncio.timeout(max(within, 0.0)):
                return await self._taken()
        except (HoldfastError, TimeoutError):
            return False

    async def _taken(self) -> bool:
        namespace, name, who = self.place.namespace, self.place.name, self.place.who
        tree = await self.cluster.get(LEASE, namespace, name)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if tree is None:
            metadata = {"name": name, "namespace": namespace}
            tree = {"apiVersion": LEASE.api, "kind": LEASE.name, "metadata": metadata, "spec": self._spec({}, now)}
            await self.cluster.create(LEASE, namespace, tree)
            self.story = f"{who} acts; there was no lease"
            return True
        spec = tree.get("spec") or {}
        holder = spec.get("holderIdentity")
        if (holder, spec.get("renewTime")) != self._seen:
            self._seen, self._since = (holder, spec.get("renewTime")), time.monotonic()
        silent = time.monotonic() - self._since
        if holder and holder != who and silent < _SECONDS:
            return False
        try:
            written = await self.cluster.replace(LEASE, namespace, {**tree, "spec": self._spec(spec, now)})
        except ConflictError:
            return False
        if holder != who:
            self.story = (
                f"{who} acts; {holder or 'nobody'} held the lease before, and did not renew it for {silent:.0f} s"
            )
        elif not self.story:
            self.story = f"{who} acts; it was started again, and held the lease before"
        return written is not None

    def _spec(self, before: dict[str, Any], now: str) -> dict[str, Any]:
        same = before.get("holderIdentity") == self.place.who
        return {
            "holderIdentity": self.place.who,
            "leaseDurationSeconds": int(_SECONDS),
            "acquireTime": before.get("acquireTime", now) if same else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if same else 1),
        }
