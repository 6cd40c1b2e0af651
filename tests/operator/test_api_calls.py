"""Whatever the API server answers to any call of the operator is read, or raises an error of Holdfast's."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, cast

import pytest

from holdfast.errors import HoldfastError
from holdfast_operator.cluster import APP, CONFIG_MAP, POD, Cluster
from holdfast_operator.service.watches import wait_for_crd

CALLS: dict[str, Callable[[Cluster], Awaitable[Any]]] = {
    "get": lambda cluster: cluster.get(POD, "apps", "a"),
    "serves": lambda cluster: cluster.serves(APP),
    "find": lambda cluster: cluster.find(POD, "apps", {}),
    "listing": lambda cluster: cluster.listing(CONFIG_MAP, None, {"a": "b"}),
    "create": lambda cluster: cluster.create(POD, "apps", {"metadata": {"name": "a"}}),
    "replace": lambda cluster: cluster.replace(POD, "apps", {"metadata": {"name": "a"}}),
    "patch": lambda cluster: cluster.patch(APP, "apps", "a", {}, part="status"),
    "delete": lambda cluster: cluster.delete(POD, "apps", "a", "uid-1", 0),
}
GOOD = b'{"groups": [], "resources": [], "items": []}'


@dataclass
class Answer:
    """What the API server says to everything."""

    status: int
    content: bytes

    async def read(self) -> bytes:
        return self.content


@dataclass
class Client:
    """A client that gets one answer after the other, and the last one for ever."""

    answers: list[Answer]

    async def param_serialize(self, *_: object, **__: object) -> tuple[object, ...]:
        return ()

    async def call_api(self, *_: object, **__: object) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def told(*answers: Answer) -> Cluster:
    return Cluster(cast("Any", Client(list(answers))))


def test_all_calls_are_in_this_test() -> None:
    assert CALLS.keys() == {
        name for name, what in vars(Cluster).items() if iscoroutinefunction(what) and name[0] != "_"
    }


@pytest.mark.parametrize("content", [b"", b"upstream away", b'{"kind": "Status", "message": "no"}'])
@pytest.mark.parametrize("status", [400, 401, 403, 409, 410, 422, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("call", CALLS)
def test_every_refusal_of_any_call_is_an_error_of_ours(call: str, status: int, content: bytes) -> None:
    cluster = told(Answer(status, content))
    if (call, status) == ("delete", 409):
        asyncio.run(cast("Any", CALLS[call](cluster)))  # another object has the name now
        return
    with pytest.raises(HoldfastError) as raised:
        asyncio.run(cast("Any", CALLS[call](cluster)))
    assert str(raised.value).isprintable()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_operator_starts_while_the_api_server_is_busy(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast_operator.service.watches._EVERY", 0.0)
    group, version = APP.api.split("/")
    groups = f'{{"groups": [{{"name": "{group}", "versions": [{{"groupVersion": "{group}/{version}"}}]}}]}}'
    resources = f'{{"resources": [{{"name": "{APP.plural}"}}]}}'
    busy, good = Answer(status, b""), (Answer(200, groups.encode()), Answer(200, resources.encode()))
    asyncio.run(wait_for_crd(told(busy, Answer(200, GOOD), busy, *good)))
