"""One operator's process: the production wiring on a simulated connection, its probe, and the kubelet that ends it.

Killed, it does nothing more; what it had sent may still arrive. It is started again as its kubelet would. Two operators
share a lease, or have none and act side by side.
"""

import asyncio
import math
import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from kubernetes.aio.client import ApiClient

from holdfast.errors import HoldfastError
from holdfast_operator.act.actions import EventWriter
from holdfast_operator.act.lease import Lease, LeaseCandidate
from holdfast_operator.brokers.topic_counts import AskBrokers
from holdfast_operator.cluster import Cluster
from holdfast_operator.examine.sandbox import answered
from holdfast_operator.main import until_one_ends
from holdfast_operator.manifests.driver_pod import Installation
from holdfast_operator.manifests.network_policy import AppNetwork
from holdfast_operator.manifests.pod_policy import PodPolicy
from holdfast_operator.service.monitoring import Metrics
from holdfast_operator.service.watches import wait_for_crd
from holdfast_operator.wiring import OperatorOptions, OperatorParts, wired
from tests.simulation.network import Client, Network
from tests.simulation.watching import Watching

PROBE_EVERY, PROBE_FAILURES = 10.0, 6
_RESTART = 2.0
_LONGEST_RESTART = 300.0
_MOST_ANSWERS = 5_000
_SLOW = 0.1
"""Share of questions about specs that take a while."""
_ANSWERS: dict[bytes, bytes] = {}


@dataclass(frozen=True, slots=True)
class SpecReaderHere:
    """Answers questions about specs in this process, each only once; some take longer than a look waits."""

    pick: random.Random

    async def ask(self, namespace: str, question: str, *arguments: Any) -> tuple[Any, int]:  # noqa: ARG002
        if self.pick.random() < _SLOW:
            await asyncio.sleep(self.pick.uniform(0.0, 2.0))
        request = pickle.dumps((question, *arguments))
        answer = _ANSWERS.get(request)
        if answer is None:
            if len(_ANSWERS) >= _MOST_ANSWERS:
                _ANSWERS.clear()
            answer = _ANSWERS[request] = answered(request)
        return pickle.loads(answer), len(answer)  # noqa: S301 - from this process


@dataclass(eq=False, slots=True)
class OperatorProcess:
    """A process from its start to its end."""

    client: Client
    options: OperatorOptions
    pick: random.Random
    task: "asyncio.Task[None] | None" = None
    parts: OperatorParts | None = None
    watching: Watching | None = None
    alive: bool = True
    failures: int = 0
    """Probes that failed one after the other."""

    async def run(self) -> None:
        if self.options.lease is None:
            await self._operate(lambda: math.inf)
        else:
            lease = await self._leading(*self.options.lease.split("/"))
            await until_one_ends({"lease": lease.keep(), "operator": self._operate(lease.left)})

    async def _operate(self, left: Callable[[], float]) -> None:
        cluster = Cluster(cast("ApiClient", self.client), left=left)
        metrics = Metrics()
        events = EventWriter(cluster, self.client.who, self.options.clock)
        await wait_for_crd(cluster)
        parts = wired(self.options, cluster, events, metrics, SpecReaderHere(self.pick))
        self.watching = Watching(self.client, parts.handlers, self.pick, self.alive)
        self.parts = parts
        await until_one_ends(
            {
                "watches": self.watching.run(),
                "signs of life": parts.handlers.signs.run(),
                "looks": parts.looks.run(),
                "leases of namespaces": parts.namespaces.run(),
                "topics": parts.topics.run(self.options.topics_every),
            }
        )

    async def _leading(self, namespace: str, name: str) -> Lease:
        cluster, candidate = Cluster(cast("ApiClient", self.client)), LeaseCandidate(namespace, name, self.client.who)
        lease = Lease(cluster, candidate, asyncio.get_running_loop().time, lambda: self.options.clock() / 1000)
        await lease.take()
        return lease

    def problems(self) -> list[str]:
        """What its health probe would say."""
        if self.parts is None:
            return []
        return [wrong for check in self.parts.health_checks() if (wrong := check()) is not None]

    def kill(self) -> None:
        """As by a power cut."""
        self.alive = False
        if self.watching is not None:
            self.watching.alive = False
        if self.task is not None:
            self.task.cancel()


@dataclass(eq=False, slots=True)
class OperatorPod:
    """The pod of an operator: its process is started again whenever it ends."""

    name: str
    network: Network
    ask: AskBrokers
    clock: Callable[[], int]
    pick: random.Random
    lease: str | None
    ended: Callable[[str, str], None]
    """Told of each end of a process, and why."""
    process: OperatorProcess | None = None
    killed_by_probe: int = 0
    why: list[str] = field(default_factory=list)
    """What the probe that killed it said."""
    crashes: list[BaseException] = field(default_factory=list)
    _wait: float = _RESTART

    def start(self) -> None:
        options = OperatorOptions(
            PodPolicy(Installation("registry/holdfast:1")),
            lease=self.lease,
            network=AppNetwork(),
            ask=self.ask,
            clock=self.clock,
            jitter=self.pick.random,
        )
        process = OperatorProcess(Client(self.network, self.name), options, self.pick)
        self.process = process
        loop = asyncio.get_running_loop()
        process.task = loop.create_task(process.run())
        process.task.add_done_callback(lambda task: self._done(process, task))
        loop.call_later(PROBE_EVERY, self._probe, process)

    def kill(self, why: str) -> None:
        """End the process; it comes again."""
        process = self.process
        if process is None or not process.alive:
            return
        process.kill()
        self.ended(self.name, why)
        asyncio.get_running_loop().call_later(self.pick.uniform(0.5, self._wait), self.start)

    def _done(self, process: OperatorProcess, task: "asyncio.Task[None]") -> None:
        if not process.alive or task.cancelled():
            return
        error = task.exception()
        if not isinstance(error, HoldfastError):  # such a one ends it on purpose
            self.crashes.append(error or AssertionError("an operator ended without an error"))
        self.kill(f"it ended: {error!r}")

    def _probe(self, process: OperatorProcess) -> None:
        if not process.alive:
            return
        problems = process.problems()
        process.failures = process.failures + 1 if problems else 0
        if process.failures >= PROBE_FAILURES:
            self.killed_by_probe += 1
            self.why += problems
            self.kill("; ".join(problems))
            return
        asyncio.get_running_loop().call_later(PROBE_EVERY, self._probe, process)
