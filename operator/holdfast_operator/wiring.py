"""The wiring of an operator: its parts, made from its options and from what connects it to the world outside.

Whoever calls it brings the client of the API server and what reads specs, and tells the handlers what its watches see:
`main` on a cluster, with kopf. Must not open connections, nor start anything.
"""

import asyncio
import functools
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.errors import code_of
from holdfast.one_line import one_line
from holdfast_operator.act.actions import ActionRunner, EventWriter
from holdfast_operator.act.namespaces import NamespaceLeases
from holdfast_operator.brokers.addresses import AddressRule
from holdfast_operator.brokers.partition_counts import read_counts
from holdfast_operator.brokers.topic_counts import AskBrokers, TopicCounts
from holdfast_operator.cluster import APP, CONFIG_MAP, NODE, POD, Cluster
from holdfast_operator.decide.facts import AppKey, DecisionLimits
from holdfast_operator.examine.examiner import Examiner, SpecReader
from holdfast_operator.manifests.network_policy import AppNetwork
from holdfast_operator.manifests.pod_policy import PodPolicy
from holdfast_operator.observe.cache import WatchCache
from holdfast_operator.observe.nodes import Nodes
from holdfast_operator.observe.placement import PlacementRecords
from holdfast_operator.observe.snapshot import SnapshotSources
from holdfast_operator.observe.storage_classes import StorageClasses
from holdfast_operator.reconcile import Reconciler
from holdfast_operator.service.look_queue import LookQueue
from holdfast_operator.service.monitoring import (
    HealthCheck,
    Metrics,
    WatchScope,
    WatchSigns,
    late_looks,
    silent_watches,
)
from holdfast_operator.service.watch_handlers import WatchHandlers

_LOG = logging.getLogger("holdfast")


def broker_asker(rule: AddressRule) -> AskBrokers:
    """Return the function that asks brokers for partition counts."""
    return functools.partial(read_counts, timeout=10.0, rule=rule)


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """The options of an operator."""

    policy: PodPolicy
    """The release, and what pods of apps may do."""
    namespaces: tuple[str, ...] = ()
    """Namespaces to watch; empty: all."""
    lease: str | None = None
    """`namespace/name`; None: only one operator runs, so no lease is needed."""
    topics_every: float = 30.0
    ports: tuple[int, ...] = ()
    """Ports that serve /healthz and /metrics."""
    nodes: bool = True
    """Whether nodes may be watched; if not, a lost node is noticed only by the state of its pods."""
    storage_classes: bool = True
    """Whether storage classes may be listed; if not, apps with claims must name theirs."""
    network: AppNetwork | None = None
    """What NetworkPolicies of apps admit; None: none are created, and the operator has no right to."""
    ask: AskBrokers = field(default=broker_asker(AddressRule()))
    """Asks brokers for partition counts."""
    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    """Returns the time of day in milliseconds."""
    jitter: Callable[[], float] = random.random
    """Returns a number from 0 to 1, by which restarts are spread."""
    at: Callable[[str], None] = field(default=lambda _: None)

    def watches(self) -> list[WatchScope]:
        """Return what is watched."""
        namespaces = self.namespaces or (None,)
        scopes: list[WatchScope] = [(kind, namespace) for kind in (APP, POD, CONFIG_MAP) for namespace in namespaces]
        return [*scopes, (NODE, None)] if self.nodes else scopes


@dataclass(frozen=True, slots=True)
class OperatorParts:
    """The parts of an operator that somebody runs, or tells something."""

    cache: WatchCache
    handlers: WatchHandlers
    """Told of all that watches see."""
    looks: LookQueue
    topics: TopicCounts
    namespaces: NamespaceLeases

    def health_checks(self) -> list[HealthCheck]:
        """Return what the health probe asks, on the clock of the running event loop."""
        clock = asyncio.get_running_loop().time
        return [lambda: late_looks(self.looks, clock()), lambda: silent_watches(self.handlers.signs)]


def wired(
    options: OperatorOptions, cluster: Cluster, events: EventWriter, metrics: Metrics, reader: SpecReader
) -> OperatorParts:
    """Return the parts of an operator, which do nothing yet."""
    limits = DecisionLimits(lost_after=1000 * options.policy.release.lost_after)
    cache = WatchCache(nodes=Nodes(limits.lost_after, options.clock))
    looks: LookQueue

    def changed(key: AppKey) -> None:
        looks.soon(key)

    topics = TopicCounts(options.ask, changed, clock=asyncio.get_running_loop().time)
    examiner = Examiner(reader, changed, options.policy, metrics.refused)
    storage = StorageClasses(cluster, options.storage_classes)
    world = SnapshotSources(cluster, cache, topics.counts, PlacementRecords(cluster), storage, examiner.told)
    namespaces = NamespaceLeases(cluster, options.lease, events, cache.has_apps, changed)
    hands = ActionRunner(cluster.limited(namespaces.left), cache, options.policy.release, options.network)
    metrics.watch(cache, namespaces.left_alone)
    tools = world, examiner, hands, events, namespaces, limits, metrics
    reconciler = Reconciler(*tools, options.at, options.clock, options.jitter, changed)
    looks = LookQueue(reconciler.reconcile, functools.partial(_failed, metrics), metrics.looked)
    signs = WatchSigns(asyncio.get_running_loop().time)
    signs.expect(options.watches())
    return OperatorParts(cache, WatchHandlers(cache, looks, signs), looks, topics, namespaces)


def _failed(metrics: Metrics, key: AppKey, error: Exception) -> None:
    metrics.failed(error)
    _LOG.warning("%s/%s: %s: %s; it is looked at again", key.namespace, key.name, code_of(error), one_line(error))
