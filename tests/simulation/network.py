"""What is between a client and the API servers: time, lost answers, errors, and connections that die silently.

`Client` has what `Cluster` calls of an `ApiClient`, so that its own mapping of errors runs. A client keeps to one
server until that server fails. Must not know what is asked.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.simulation.objects import RefusedCallError
from tests.simulation.server import BOOKMARKS_EVERY, ApiServer, Watch, WatchEvent

LATE = ", late"
"""Behind the name of who made a call that arrives late."""
LATEST = 40.0
"""Seconds that such a call takes at most."""
TICK = 1e-6
"""Seconds between what comes one after the other: timers of the same moment have no order."""


@dataclass(slots=True)
class Network:
    """The way to the servers, with its troubles of now."""

    servers: list[ApiServer]
    pick: random.Random
    slowness: float = 0.01
    """Seconds that a way takes at most."""
    answers_after: float = 0.0
    """Seconds that answers take beyond that; what watches tell comes first then."""
    lost: float = 0.0
    """Share of calls that never arrive."""
    late: float = 0.0
    """Share of calls that arrive when their client has given them up."""
    unanswered: float = 0.0
    """Share of calls that are done, and whose answer is lost."""
    refusing: float = 0.0
    """Share of calls that are answered by an error of the server."""

    def server(self, last: ApiServer | None) -> ApiServer:
        """The same server while it is up, else another."""
        if last is not None and last.up:
            return last
        up = [server for server in self.servers if server.up]
        if not up:
            message = "Cannot connect to host"
            raise aiohttp.ClientConnectionError(message)
        return self.pick.choice(up)


@dataclass(slots=True)
class ClientResponse:
    """An answer."""

    status: int
    text: bytes

    async def read(self) -> bytes:
        return self.text


@dataclass(eq=False, slots=True)
class Client:
    """The connection of one process; it ends with the process."""

    network: Network
    who: str
    cut: bool = False
    """Whether it reaches no server for now."""
    calls: int = 0
    _server: ApiServer | None = None
    _streams: list["Stream"] = field(default_factory=list)

    async def param_serialize(self, method: str, path: str, **options: Any) -> tuple[Any, ...]:
        return method, path, options.get("query_params") or [], options.get("body")

    async def call_api(
        self, method: str, path: str, query: Any, body: Any, _request_timeout: float | None = None
    ) -> ClientResponse:
        network, pick = self.network, self.network.pick
        self.calls += 1
        try:
            await asyncio.sleep(pick.uniform(0.0005, network.slowness))
        except asyncio.CancelledError:
            if pick.random() < 0.5 and not self.cut:
                # The process died, and what it sent arrives all the same.
                asyncio.get_running_loop().call_later(0.001, self._arrive, method, path, query, body, self.who)
            raise
        if self.cut or pick.random() < network.lost:
            await self._silence(_request_timeout)
        if pick.random() < network.late:
            later = pick.uniform(0.1, LATEST)
            asyncio.get_running_loop().call_later(later, self._arrive, method, path, query, body, self.who + LATE)
            await self._silence(_request_timeout)
        self._server = network.server(self._server)
        if pick.random() < network.refusing:
            return ClientResponse(pick.choice((429, 500, 503, 504)), b'{"message": "try again later"}')
        status, text = self._server.answer(method, path, query, body, self.who)
        if pick.random() < network.unanswered:
            await self._silence(_request_timeout)
        await asyncio.sleep(network.answers_after + pick.uniform(0.0005, network.slowness))
        return ClientResponse(status, text)

    def watch(self, watch: Watch, since: str) -> "Stream":
        """Open a watch."""
        if self.cut:
            message = "Cannot connect to host"
            raise aiohttp.ClientConnectionError(message)
        self._server = self.network.server(self._server)
        stream = Stream(watch, self._server, self.network)
        self._streams = [one for one in self._streams if one.open]
        self._streams.append(stream)
        watch.tell = stream.send
        stream.begin(since)
        return stream

    def kill_streams(self) -> None:
        """Every open connection is dead from now on, and nobody tells."""
        for stream in self._streams:
            stream.dead = True

    def _arrive(self, method: str, path: str, query: Any, body: Any, who: str) -> None:
        try:
            self.network.server(self._server).answer(method, path, query, body, who)
        except aiohttp.ClientConnectionError:
            return

    async def _silence(self, timeout: float | None) -> None:
        if self.network.pick.random() < 0.5:
            await asyncio.sleep(timeout or 60.0)
            raise TimeoutError
        message = "Connection reset by peer"
        raise aiohttp.ClientConnectionError(message)


@dataclass(eq=False, slots=True)
class Stream:
    """The connection of a watch."""

    watch: Watch
    server: ApiServer
    network: Network
    dead: bool = False
    open: bool = True
    heard: Callable[[WatchEvent], None] = lambda _event: None
    ended: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    _last: float = 0.0

    def begin(self, since: str) -> None:
        """May raise what the server answers."""
        try:
            self.server.watch(self.watch, since)
        except RefusedCallError:
            self.open = False
            raise
        asyncio.get_running_loop().call_later(BOOKMARKS_EVERY, self._bookmark)

    def send(self, event: WatchEvent | None) -> None:
        """One event is on its way; it arrives behind those before it."""
        if self.dead:
            return
        loop = asyncio.get_running_loop()
        self._last = max(self._last + TICK, loop.time() + self.network.pick.uniform(0.0002, self.network.slowness / 2))
        loop.call_at(self._last, self._arrive, event)

    def close(self) -> None:
        self.open = False
        self.server.close(self.watch)

    def end(self) -> None:
        """The server ends it, as it does after its timeout."""
        self.send(None)
        self.server.close(self.watch)

    def _arrive(self, event: WatchEvent | None) -> None:
        if not self.open or self.dead:
            return
        if event is not None:
            self.heard(event)
        elif not self.ended.done():
            self.ended.set_result(None)

    def _bookmark(self) -> None:
        if self.open:
            self.server.bookmark(self.watch)
            asyncio.get_running_loop().call_later(BOOKMARKS_EVERY, self._bookmark)
