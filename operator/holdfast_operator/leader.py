"""Why: of several operators only one may act, and another takes over within seconds when it dies: a Lease says who.

Whether somebody else's lease has run out is judged by how long it has not changed on our own clock; clocks of hosts are
never compared. (The client library's own election can't create a Lease in version 37: it sends `pretty=True`.) Must not
know what leading means.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from holdfast.errors import HoldfastError, RetrySoonError
from holdfast_operator.cluster import LEASE, Cluster, ConflictError

_SECONDS, _RETRY = 8.0, 2.0
_SAFE = _SECONDS - 2.0
"""A leader that could not renew for so long acts no more: the lease may be just about to be lost."""


class LeaseLostError(RetrySoonError):
    """Another operator may act now."""


@dataclass(slots=True)
class Lease:
    """One lease, as one operator sees it."""

    cluster: Cluster
    namespace: str
    name: str
    who: str
    _seen: tuple[object, object] = (None, None)
    _since: float = field(default_factory=time.monotonic)

    async def lead(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Act as soon as the lease is held and as long as it is; `LeaseLostError` when it is not any more."""
        while not await self._held():
            await asyncio.sleep(_RETRY)
        acting = asyncio.create_task(act())
        try:
            await asyncio.wait({acting, asyncio.create_task(self._kept())}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not acting.done():
                acting.cancel()
        if acting.done():
            acting.result()
        message = f"lease {self.namespace}/{self.name} could not be kept: another operator may act, so this one ends"
        raise LeaseLostError(message)

    async def _kept(self) -> None:
        """Renew until that has failed for too long."""
        until = time.monotonic() + _SAFE
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(_RETRY, left))
            began = time.monotonic()
            if await self._held(until - began):
                until = began + _SAFE

    async def _held(self, within: float = _SAFE) -> bool:
        """Take the lease, or keep it; whether it is ours now."""
        try:
            async with asyncio.timeout(max(within, 0.0)):
                return await self._taken()
        except (HoldfastError, TimeoutError):
            return False

    async def _taken(self) -> bool:
        tree = await self.cluster.get(LEASE, self.namespace, self.name)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if tree is None:
            metadata = {"name": self.name, "namespace": self.namespace}
            tree = {"apiVersion": LEASE.api, "kind": LEASE.name, "metadata": metadata, "spec": self._spec({}, now)}
            await self.cluster.create(LEASE, self.namespace, tree)
            return True
        spec = tree.get("spec") or {}
        holder = spec.get("holderIdentity")
        if (holder, spec.get("renewTime")) != self._seen:
            self._seen, self._since = (holder, spec.get("renewTime")), time.monotonic()
        if holder and holder != self.who and time.monotonic() - self._since < _SECONDS:
            return False
        try:
            written = await self.cluster.replace(LEASE, self.namespace, {**tree, "spec": self._spec(spec, now)})
        except ConflictError:
            return False
        return written is not None

    def _spec(self, before: dict[str, Any], now: str) -> dict[str, Any]:
        same = before.get("holderIdentity") == self.who
        return {
            "holderIdentity": self.who,
            "leaseDurationSeconds": int(_SECONDS),
            "acquireTime": before.get("acquireTime", now) if same else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if same else 1),
        }
