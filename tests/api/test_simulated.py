"""The real API server answers as the histories say to which the simulated one is held."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from tests.api.admin import Admin, RefusedError
from tests.api.plane import Plane
from tests.simulation.histories import HISTORIES, replay
from tests.simulation.objects import Tree


@dataclass(frozen=True)
class RealServer:
    """Calls of the real server."""

    admin: Admin

    def call(self, method: str, path: str, body: Any) -> tuple[int, Tree]:
        try:
            content = "application/merge-patch+json" if method == "PATCH" else "application/json"
            answer = self.admin.call(method, path, body, content)
        except RefusedError as refused:
            return refused.status, refused.answer
        return (200 if answer else 404), answer

    async def watch(self, path: str) -> list[Tree]:
        return self.admin.events_of_watch(path)


@pytest.mark.parametrize("number", range(len(HISTORIES)))
def test_the_real_server_answers_as_the_simulated_one(plane: Plane, number: int) -> None:
    admin, namespace = Admin(plane), f"history-{number}"
    admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    asyncio.run(replay(list(HISTORIES.values())[number], RealServer(admin), namespace))
