"""The simulated API server answers as the histories say; the real one is held to them in `tests/api`."""

import asyncio
import json
import random
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.simulation.histories import HISTORIES, replay
from tests.simulation.objects import Objects, Tree, whole_numbers
from tests.simulation.server import ApiServer, Watch, WatchEvent, selector
from tests.simulation.virtual_loop import VirtualLoop


@dataclass(frozen=True)
class SimulatedServer:
    """Calls of a simulated server."""

    server: ApiServer

    def call(self, method: str, path: str, body: Any) -> tuple[int, Tree]:
        url = urlsplit(path)
        status, text = self.server.answer(method, url.path, parse_qsl(url.query), body, "somebody")
        return (200 if status < 300 else status), json.loads(text)

    async def watch(self, path: str) -> list[Tree]:
        url = urlsplit(path)
        query, parts = dict(parse_qsl(url.query)), url.path.split("/")
        events: list[WatchEvent] = []

        def tell(event: WatchEvent | None) -> None:
            if event is not None:
                events.append(event)

        watch = Watch(parts[-1], parts[-2], selector(query.get("labelSelector", "")), tell)
        await asyncio.sleep(1)
        self.server.watch(watch, query["resourceVersion"])
        await asyncio.sleep(1)
        return [{"type": kind, "object": what if isinstance(what, dict) else json.loads(what)} for kind, what in events]


@pytest.mark.parametrize("name", HISTORIES)
def test_the_simulated_server_answers_as_a_server_does(name: str) -> None:
    objects = Objects(lambda: 1_800_000_000_000, lambda _kind, tree: whole_numbers(tree.get("status")))
    server = ApiServer(objects)

    async def life() -> None:
        for other in "ab":
            objects.create("configmaps", "before", {"metadata": {"name": other}}, "somebody")
        server.start()  # with versions behind it that no watch can begin at
        await replay(HISTORIES[name], SimulatedServer(server), "apps")

    loop = VirtualLoop(random.Random(1))  # noqa: S311 - nothing is drawn
    loop.run_until_complete(life())
    loop.close()
