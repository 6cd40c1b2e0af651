"""The lease on a clock of its own: who may write when, whatever becomes of the calls that renew it."""

import asyncio
import copy
import selectors
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from holdfast.api_answers import ApiConflictError, ApiUnreachableError
from holdfast_operator.act.lease import LEADER, Lease, LeaseCandidate, LeaseTakenError
from holdfast_operator.cluster import POD, ApiKind, Cluster, NotLeadingError

Tree = dict[str, Any]


class _Clock(selectors.DefaultSelector):
    """A selector that does not wait: what a loop would wait for has passed."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.clock = _Clock()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now


def lived(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a story in which waiting takes no time."""
    loop = _Loop()
    try:
        loop.run_until_complete(story())
    finally:
        loop.close()


def stand_still(seconds: float) -> None:
    """As a host does whose processes get no time."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _Loop)
    loop.clock.now += seconds


@dataclass
class Server:
    """One lease; the calls of an operator can be cut off, before or after they do something."""

    lease: Tree | None = None
    version: int = 0
    cut: set[str] = field(default_factory=set)
    hanging: set[str] = field(default_factory=set)
    unread: bool = False
    """Whether nobody can read it."""
    deaf: set[str] = field(default_factory=set)
    """Whose next answer is lost."""

    def client(self, who: str) -> Cluster:
        return cast("Cluster", _Client(self, who))

    def write(self, tree: Tree) -> Tree:
        self.version += 1
        self.lease = copy.deepcopy(tree)
        self.lease["metadata"] |= {"resourceVersion": str(self.version), "uid": tree["metadata"].get("uid", "u")}
        return copy.deepcopy(self.lease)


@dataclass
class _Client:
    server: Server
    who: str

    async def get(self, _: ApiKind, _namespace: str, _name: str) -> Tree | None:
        await self._arrives()
        if self.server.unread:
            raise ApiUnreachableError(self.who)
        return copy.deepcopy(self.server.lease)

    async def create(self, _: ApiKind, _namespace: str, tree: Tree) -> Tree:
        await self._arrives()
        if self.server.lease is not None:
            raise ApiConflictError(name_of(tree))
        return self._answer(self.server.write(tree))

    async def replace(self, _: ApiKind, _namespace: str, tree: Tree) -> Tree | None:
        await self._arrives()
        if self.server.lease is None:
            return None
        if self.server.lease["metadata"]["resourceVersion"] != tree["metadata"]["resourceVersion"]:
            raise ApiConflictError(name_of(tree))
        return self._answer(self.server.write(tree))

    async def _arrives(self) -> None:
        await asyncio.sleep(0.01)
        if self.who in self.server.hanging:
            await asyncio.sleep(1_000)
        if self.who in self.server.cut:
            raise ApiUnreachableError(self.who)

    def _answer(self, tree: Tree) -> Tree:
        if self.who in self.server.deaf:
            self.server.deaf.remove(self.who)
            raise ApiUnreachableError(self.who)
        return tree


def name_of(tree: Tree) -> str:
    return str(tree["metadata"]["name"])


def candidate(server: Server, who: str) -> Lease:
    candidate = LeaseCandidate("operators", "lease", who)
    clock = asyncio.get_running_loop().time
    return Lease(server.client(who), candidate, clock, lambda: 1_800_000_000.0 + clock())


async def leader(server: Server, who: str) -> tuple[Lease, "asyncio.Task[None]"]:
    lease = candidate(server, who)
    await lease.take()
    return lease, asyncio.create_task(lease.keep())


async def until(condition: Callable[[], bool], seconds: float) -> float:
    """Return how long it took."""
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.1)
    return asyncio.get_running_loop().time() - began


@pytest.mark.parametrize("how", ["cut", "hanging"])
def test_a_leader_cut_off_writes_nothing_until_it_is_back(how: str) -> None:
    async def story() -> None:
        server = Server()
        lease, keeping = await leader(server, "first")
        await asyncio.sleep(100)
        assert lease.left() > LEADER.confidence - LEADER.retry - 0.1
        getattr(server, how).add("first")
        assert await until(lambda: lease.left() <= 0, 60) < LEADER.confidence + 0.2
        await asyncio.sleep(300)
        assert lease.left() <= 0
        getattr(server, how).clear()
        assert await until(lambda: lease.left() > 0, 60) < LEADER.confidence + 2 * LEADER.retry
        assert not keeping.done()
        assert server.lease is not None
        assert server.lease["spec"]["leaseTransitions"] == 1
        keeping.cancel()

    lived(story)


def test_a_hanging_call_leaves_time_for_another() -> None:
    async def story() -> None:
        server = Server()
        lease, keeping = await leader(server, "first")
        await asyncio.sleep(LEADER.retry + 0.5)
        server.hanging.add("first")
        await asyncio.sleep(LEADER.retry + 0.5)
        server.hanging.clear()  # a new connection would work
        while not keeping.done() and asyncio.get_running_loop().time() < 60:
            assert lease.left() > 0
            await asyncio.sleep(0.1)
        keeping.cancel()

    lived(story)


def test_a_leader_whose_lease_was_changed_reads_before_it_writes() -> None:
    """It wrote for as long as its last renewal allowed, though somebody else had changed who holds it since."""

    async def story() -> None:
        server = Server()
        lease, keeping = await leader(server, "first")
        assert server.lease is not None
        server.write(server.lease | {"metadata": server.lease["metadata"] | {"labels": {"team": "shop"}}})
        server.unread = True
        await until(lambda: lease.left() <= 0, LEADER.retry + 1)
        await asyncio.sleep(3 * LEADER.retry)
        assert lease.left() <= 0
        server.unread = False
        await until(lambda: lease.left() > 0, LEADER.retry + 1)
        keeping.cancel()

    lived(story)


def test_two_operators_never_write_at_once() -> None:
    async def story() -> None:
        server = Server()
        first, keeping = await leader(server, "first")
        second = candidate(server, "second")
        taking = asyncio.create_task(second.take())
        await asyncio.sleep(60)
        assert not taking.done()
        server.cut.add("first")
        began = asyncio.get_running_loop().time()
        while not taking.done():
            assert not (first.left() > 0 and second.left() > 0)
            await asyncio.sleep(0.1)
        assert (
            LEADER.duration - LEADER.retry
            < asyncio.get_running_loop().time() - began
            < LEADER.duration + 2 * LEADER.retry
        )
        assert first.left() <= 0 < second.left()
        assert "first held the lease before, and did not renew it for 1" in second.story
        server.cut.clear()
        with pytest.raises(LeaseTakenError, match="second holds it now"):
            await keeping
        assert first.left() <= 0

    lived(story)


@pytest.mark.parametrize("phase", range(10))
@pytest.mark.parametrize("how", ["host", "hanging", "cut"])
def test_who_could_not_look_takes_no_lease_from_the_living(how: str, phase: int) -> None:
    async def story() -> None:
        server = Server()
        _, keeping = await leader(server, "first")
        await asyncio.sleep(phase * LEADER.retry / 10)
        second = candidate(server, "second")
        taking = asyncio.create_task(second.take())
        for seconds in range(8, 40, 2):
            await asyncio.sleep(LEADER.duration + phase * 0.03)
            if how == "host":
                stand_still(seconds)
            else:
                getattr(server, how).update(("first", "second"))
                await asyncio.sleep(seconds)
                getattr(server, how).clear()
        await asyncio.sleep(LEADER.duration)
        assert not taking.done()
        assert not keeping.done()
        keeping.cancel()
        assert await until(taking.done, 60) < LEADER.duration + 2 * LEADER.retry

    lived(story)


def test_without_the_lease_a_write_is_refused_before_sending() -> None:
    async def story() -> None:
        cluster = Cluster(cast("Any", None), left=lambda: 0.0)
        with pytest.raises(NotLeadingError):
            await cluster.delete(POD, "apps", "driver")
        elsewhere = Cluster(cast("Any", None)).limited(lambda namespace: 0.0 if namespace == "apps" else 1.0)
        for write in (
            elsewhere.delete(POD, "apps", "driver"),
            elsewhere.create(POD, "apps", {}),
            elsewhere.patch(POD, "apps", "driver", {}),
            elsewhere.replace(POD, "apps", {"metadata": {"name": "driver"}}),
        ):
            with pytest.raises(NotLeadingError):
                await write

    lived(story)


def test_lost_answers_and_edits_do_not_end_the_leader() -> None:
    async def story() -> None:
        server = Server()
        lease, keeping = await leader(server, "first")
        server.deaf.add("first")
        await asyncio.sleep(2 * LEADER.retry + 1)
        assert lease.left() > LEADER.confidence - 2 * LEADER.retry
        assert server.lease is not None
        server.write({**server.lease, "metadata": {**server.lease["metadata"], "labels": {"edited": "yes"}}})
        await asyncio.sleep(60)
        assert lease.left() > 0
        assert server.lease["metadata"]["labels"] == {"edited": "yes"}
        keeping.cancel()

    lived(story)


def test_a_lease_taken_or_deleted_meanwhile_ends_the_leader() -> None:
    async def story() -> None:
        server = Server()
        _, keeping = await leader(server, "first")
        assert server.lease is not None
        spec = {**server.lease["spec"], "leaseTransitions": 3}
        server.write({**server.lease, "spec": spec})
        with pytest.raises(LeaseTakenError):
            await keeping
        _, keeping = await leader(server, "first")
        server.lease = None
        with pytest.raises(LeaseTakenError):
            await keeping

    lived(story)


def test_a_forbidden_lease_is_reported_once_and_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        server = Server(cut={"first"})
        leading = asyncio.create_task(leader(server, "first"))
        await asyncio.sleep(600)
        assert [record.message for record in caplog.records] == ["lease operators/lease: first; it is tried again"]
        server.cut.clear()
        lease, keeping = await leading
        server.cut.add("first")
        await until(lambda: lease.left() <= 0, 60)
        assert len([record for record in caplog.records if "tried again" in record.message]) == 2
        keeping.cancel()

    lived(story)
