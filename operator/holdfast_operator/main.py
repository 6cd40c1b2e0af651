"""The operator's command line and process: its connections, its lease, its probe and kopf, which runs the watches.

Must not decide, nor know how the parts of an operator work together.
"""

import argparse
import asyncio
import logging
import math
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import kopf
from kubernetes.aio import client, config

from holdfast.errors import code_of
from holdfast_operator.act.actions import EventWriter
from holdfast_operator.act.lease import Lease, LeaseCandidate, lease_held, reference
from holdfast_operator.brokers.addresses import AddressInvalidError, AddressPattern, AddressRule
from holdfast_operator.cluster import CallListener, Cluster
from holdfast_operator.examine.examiner import ExaminerLanes
from holdfast_operator.manifests.driver_pod import Installation
from holdfast_operator.manifests.network_policy import read_app_network
from holdfast_operator.manifests.pod_policy import ANY_ACCOUNT, PodPolicy
from holdfast_operator.manifests.pod_security import PodProfile
from holdfast_operator.manifests.release_defaults import ReleaseDefaults, read_release_defaults
from holdfast_operator.service.monitoring import Health, Metrics, health_server
from holdfast_operator.service.watches import registry, wait_for_crd
from holdfast_operator.wiring import OperatorOptions, broker_asker, wired

_LOG = logging.getLogger("holdfast")


async def serve(options: OperatorOptions) -> None:
    """Run the operator until it is cancelled."""
    metrics, health = Metrics(), Health()
    async with health_server(options.ports, health, metrics):
        lease = None if options.lease is None else await _leading(options.lease)
        left = (lambda: math.inf) if lease is None else lease.left
        metrics.leads(left)
        async with _connected(metrics.called, left) as cluster:
            teller = EventWriter(cluster, _who(), options.clock)
            if lease is not None:
                of = reference(lease.candidate.namespace, lease.candidate.name)
                await teller.tell(of, "LeaseTaken", lease.story, warning=False)
            await _operate(options, cluster, teller, metrics, health)


async def _leading(lease: str) -> Lease:
    namespace, _, name = lease.partition("/")
    # Exit at once when another operator leads: a reconcile under way must not be completed.
    return await lease_held(LeaseCandidate(namespace, name, _who()), _connected, lambda: os._exit(1))


@asynccontextmanager
async def _connected(
    called: CallListener = lambda *_: None, left: Callable[[], float] = lambda: math.inf
) -> AsyncIterator[Cluster]:
    """Open a connection to the API server, for the current event loop."""
    configuration = client.Configuration()
    await _configure(configuration)
    async with client.ApiClient(configuration) as api:
        yield Cluster(api, called, left)


async def _configure(configuration: client.Configuration) -> None:
    try:
        config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except config.ConfigException:
        await config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    # If the environment's proxies were honoured, each call would wait for a thread that looks them up.
    configuration.client_session_kwargs = {"trust_env": False}


async def _operate(
    options: OperatorOptions, cluster: Cluster, teller: EventWriter, metrics: Metrics, health: Health
) -> None:
    await wait_for_crd(cluster)
    lanes = ExaminerLanes()
    parts = wired(options, cluster, teller, metrics, lanes)
    health.checks += parts.health_checks()
    watches = kopf.operator(
        registry=registry(parts.handlers, nodes=options.nodes),
        clusterwide=not options.namespaces,
        namespaces=options.namespaces,
        standalone=True,
    )
    await until_one_ends(
        {
            "watches": watches,
            "signs of life": parts.handlers.signs.run(),
            "examiners": lanes.run(),
            "looks": parts.looks.run(),
            "leases of namespaces": parts.namespaces.run(),
            "topics": parts.topics.run(options.topics_every),
        }
    )


async def until_one_ends(parts: Mapping[str, Coroutine[Any, Any, object]]) -> None:
    """Run the parts of an operator until the first one ends; without it, the others would only seem to work.

    kopf ends without an error when a signal tells it to.
    """
    tasks = [asyncio.create_task(part, name=name) for name, part in parts.items()]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            error = task.exception()
            if error is not None:
                _LOG.error("the operator ends, as its %s ended: %s: %s", task.get_name(), code_of(error), error)
                raise error
            _LOG.info("the operator ends, as its %s ended", task.get_name())
    finally:
        for task in tasks:
            task.cancel()


def _who() -> str:
    return os.environ.get("HOSTNAME") or socket.gethostname()


def _pattern(text: str) -> AddressPattern:
    try:
        return AddressPattern.parse(text)
    except AddressInvalidError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _release_defaults(text: str) -> ReleaseDefaults:
    try:
        return read_release_defaults(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the operator by its command line."""
    parser = argparse.ArgumentParser(prog="holdfast-operator", description="Runs StreamApps on this cluster.")
    parser.add_argument("--image", required=True, help="image of drivers and executors that name none")
    parser.add_argument("--service-account", default="holdfast-app", help="of drivers and executors")
    parser.add_argument("--pull-policy", choices=("Always", "IfNotPresent", "Never"), default="IfNotPresent")
    parser.add_argument(
        "--pull-secret", action="append", default=[], metavar="NAME", help="of that image (again: more)"
    )
    parser.add_argument("--namespace", action="append", default=[], help="watch only this one (again: more)")
    parser.add_argument(
        "--lease",
        metavar="NAMESPACE/NAME",
        help="act only while holding this lease, and only in namespaces that no operator with another one looks after",
    )
    parser.add_argument("--topics-every", type=float, default=30.0, metavar="SECONDS", help="how often to ask brokers")
    parser.add_argument(
        "--kafka-allowed",
        type=_pattern,
        action="append",
        default=[],
        metavar="HOST[:PORT[-PORT]]",
        help="ask only these brokers: a name with *, an address or a network (again: more)",
    )
    parser.add_argument("--port", type=int, action="append", default=[], help="answer /healthz and /metrics here")
    parser.add_argument("--no-nodes", action="store_true", help="without the right to see nodes")
    parser.add_argument(
        "--lost-after", type=int, default=60, metavar="SECONDS", help="a node that does not answer for so long is lost"
    )
    parser.add_argument("--no-storage-classes", action="store_true", help="without the right to list them")
    parser.add_argument(
        "--pod-templates",
        choices=tuple(PodProfile),
        type=PodProfile,
        default=PodProfile.RESTRICTED,
        help="how far pods of apps may go, by the names of Pod Security",
    )
    parser.add_argument(
        "--app-service-account",
        action="append",
        default=[],
        metavar="NAME",
        help=f"apps may name this one too (again: more; {ANY_ACCOUNT}: any)",
    )
    parser.add_argument("--node-state", action="store_true", help="state may be in folders of nodes (hostPath)")
    parser.add_argument(
        "--app-network", type=read_app_network, metavar="JSON", help="make NetworkPolicies of apps, which admit this"
    )
    parser.add_argument(
        "--app-defaults",
        type=_release_defaults,
        default=ReleaseDefaults(),
        metavar="JSON",
        help="checkpoint and storage class of apps that name none, by namespace; of all others by an empty name",
    )
    flags = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    # Otherwise kopf logs a line for each watch event, which would bury everything else.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    release = Installation(
        flags.image,
        flags.service_account,
        flags.pull_policy,
        tuple(flags.pull_secret),
        lost_after=flags.lost_after,
        defaults=flags.app_defaults,
    )
    options = OperatorOptions(
        PodPolicy(release, flags.pod_templates, tuple(flags.app_service_account), flags.node_state),
        tuple(flags.namespace),
        flags.lease,
        flags.topics_every,
        tuple(flags.port),
        not flags.no_nodes,
        not flags.no_storage_classes,
        flags.app_network,
        broker_asker(AddressRule(tuple(flags.kafka_allowed))),
    )
    asyncio.run(serve(options))
