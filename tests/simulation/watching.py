"""How kopf 1.45 watches, at the same handlers: lists, watches, what it does when they end, and what it does not tell.

- A list is read page by page; each object is told as an event without a type. What vanished since the list before is
  told by nobody.
- Events of one object are handled in order, those of different objects in any.
- Until all kinds with an index are listed, no event handler is called.
- A watch ends by the server's timeout, or, when its connection is dead, by the client's. It goes on from where it was;
  after 410 everything is listed again.
- What a call can't get by repeating it ends the watch of that kind, and the process lives on.

Must not know what handlers do.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from holdfast.protocol.names import APP_LABEL, REPORT_LABEL
from holdfast_operator.cluster import APP, CONFIG_MAP, NODE, POD, ApiKind
from holdfast_operator.service.watch_handlers import WatchHandlers
from holdfast_operator.service.watches import RetryWaits
from tests.simulation.network import TICK, Client, Stream
from tests.simulation.objects import RefusedCallError
from tests.simulation.server import Watch, WatchEvent, selector

_SERVER_ENDS, _CLIENT_ENDS, _AGAIN, _CHUNK = 300.0, 330.0, 0.1, 10
_FORBIDDEN = 403
_TIMEOUT = 60.0
Handler = Callable[..., Awaitable[None]]


class GoneError(Exception):
    """The version is too old: list again."""


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """A kind, and who is told of its objects."""

    kind: ApiKind
    labels: str
    event: Handler
    index: Handler | None = None


@dataclass(eq=False, slots=True)
class Watching:
    """All watches of one operator."""

    client: Client
    handlers: WatchHandlers
    pick: random.Random
    alive: bool = True
    ended: list[str] = field(default_factory=list)
    """Kinds that nobody watches any more."""
    streams: dict[str, Stream] = field(default_factory=dict)
    _to_list: set[str] = field(default_factory=set)
    """Indexed kinds that are not listed yet."""
    _held: list[tuple[WatchedKind, str | None, Any]] = field(default_factory=list)
    """Events that wait for that."""
    _ready: dict[str, float] = field(default_factory=dict)
    """Uid -> when its last event is handled."""

    async def run(self) -> None:
        handlers = self.handlers
        kinds = [
            WatchedKind(POD, APP_LABEL, handlers.pod, handlers.pod_there),
            WatchedKind(CONFIG_MAP, REPORT_LABEL, handlers.report, handlers.report_there),
            WatchedKind(APP, "", handlers.app),
            WatchedKind(NODE, "", handlers.node),
        ]
        self._to_list = {one.kind.plural for one in kinds if one.index is not None}
        await asyncio.gather(*map(self._watch, kinds))

    async def _watch(self, watched: WatchedKind) -> None:
        try:
            while True:
                try:
                    since = await self._list(watched)
                    while True:
                        since = await self._stream(watched, since)
                except (aiohttp.ClientConnectionError, TimeoutError, GoneError):
                    await asyncio.sleep(_AGAIN)
        except RefusedCallError as refused:
            self.ended.append(f"{watched.kind.plural}: {refused}")

    async def _list(self, watched: WatchedKind) -> str:
        query = [("limit", str(_CHUNK)), ("labelSelector", watched.labels)]
        places: set[tuple[str, str]] = set()
        after = ""
        while True:
            page = await self._get(watched, query + ([("continue", after)] if after else []))
            after = page["metadata"].get("continue", "")
            places |= {(tree["metadata"].get("namespace", ""), tree["metadata"]["name"]) for tree in page["items"]}
            if after:
                self._heard(watched)
            else:
                self.handlers.listed(watched.kind, None, page["metadata"]["resourceVersion"], places)
            for tree in page["items"]:
                self._tell(watched, None, tree)
            if not after:
                break
        self._to_list.discard(watched.kind.plural)
        if not self._to_list:
            held, self._held = self._held, []
            for kind, change, tree in held:
                self._tell(kind, change, tree)
        return str(page["metadata"]["resourceVersion"])

    async def _get(self, watched: WatchedKind, query: list[tuple[str, str]]) -> Any:
        """The answer, tried again as kopf does."""
        for wait in RetryWaits():
            with suppress(aiohttp.ClientConnectionError, TimeoutError):
                answer = await self.client.call_api("GET", watched.kind.path(None), query, None, _TIMEOUT)
                if answer.status == 200:
                    return json.loads(answer.text)
                self._refused(watched, RefusedCallError(answer.status, "", answer.text.decode()))
            await asyncio.sleep(wait)
        raise AssertionError

    def _refused(self, watched: WatchedKind, error: RefusedCallError) -> None:
        """Raise what ends the watch of this kind."""
        if error.status == _FORBIDDEN:
            self.handlers.refused(watched.kind, None)
        elif error.status < 500 and error.status != 429:
            raise error

    async def _stream(self, watched: WatchedKind, since: str) -> str:
        """Watch until that ends; return from where to go on."""
        stream = await self._opened(watched, since)
        last, expired = [since], [False]

        def heard(event: WatchEvent) -> None:
            change, what = event
            if not self.alive:
                return
            self._heard(watched)
            if change == "ERROR":
                expired[0] = what["code"] == 410
                stream.end() if stream.open else None
            elif change == "BOOKMARK":
                last[0] = what["metadata"]["resourceVersion"]
            else:
                tree = json.loads(what)
                last[0] = tree["metadata"]["resourceVersion"]
                self._tell(watched, change, tree)

        stream.heard = heard
        self._heard(watched)
        self.streams[watched.kind.plural] = stream
        loop = asyncio.get_running_loop()
        timers = loop.call_later(_SERVER_ENDS, stream.end), loop.call_later(_CLIENT_ENDS, _finish, stream)
        try:
            await stream.ended
        finally:
            stream.close()
            for timer in timers:
                timer.cancel()
        if expired[0]:
            raise GoneError
        return last[0]

    async def _opened(self, watched: WatchedKind, since: str) -> Stream:
        watch = Watch(watched.kind.plural, None, selector(watched.labels), lambda _event: None)
        for wait in RetryWaits():
            try:
                await asyncio.sleep(self.pick.uniform(0.0005, self.client.network.slowness))
                return self.client.watch(watch, since)
            except aiohttp.ClientConnectionError:
                pass
            except RefusedCallError as refused:
                self._refused(watched, refused)
            await asyncio.sleep(wait)
        raise AssertionError

    def _heard(self, watched: WatchedKind) -> None:
        """Tell of a sign of life."""
        self.handlers.heard(watched.kind, None)

    def _tell(self, watched: WatchedKind, change: str | None, tree: Any) -> None:
        """Hand an event to the worker of its object."""
        loop, uid = asyncio.get_running_loop(), tree["metadata"]["uid"]
        at = max(self._ready.get(uid, 0.0) + TICK, loop.time() + self.pick.uniform(0.0, 0.002))
        self._ready[uid] = at
        loop.call_at(at, self._handle, watched, change, tree)

    def _handle(self, watched: WatchedKind, change: str | None, tree: Any) -> None:
        if not self.alive:
            return
        if watched.index is not None and change != "DELETED":
            _called(watched.index(body=tree))
        if self._to_list:
            self._held.append((watched, change, tree))
        else:
            _called(watched.event(body=tree, type=change))


def _finish(stream: Stream) -> None:
    if not stream.ended.done():
        stream.ended.set_result(None)


def _called(handler: Awaitable[None]) -> None:
    """Handlers await nothing: they are done at once."""
    try:
        handler.__await__().send(None)
    except StopIteration:
        return
    message = "a handler waits for something"
    raise AssertionError(message)
