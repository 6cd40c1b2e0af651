"""An operator in a process of its own, forked from one that has imported it, which dies where it is told to.

`run(namespace, die)`, or several namespaces with commas between them:
DIE is `POINT:N` (at the N-th time it comes by this point), `any:N` (by any point) or `after:SECONDS`; `busy:SECONDS`
is no death: its loop does nothing for so long, in the middle of its first look. Topics are what a test says they are,
in the file TOPICS of the environment: brokers are another test's matter. Must not change what an operator does.
"""

import asyncio
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from kubernetes.aio.config import kube_config

from holdfast.errors import WorldChangeError
from holdfast_operator import main
from holdfast_operator.brokers.addresses import AddressRule
from holdfast_operator.manifests.driver_pod import Installation
from holdfast_operator.manifests.network_policy import AppNetwork
from holdfast_operator.manifests.pod_policy import PodPolicy
from holdfast_operator.wiring import OperatorOptions, broker_asker


def counts(_system: str, _bootstrap: str, _config: Mapping[str, str], topics: Collection[str]) -> dict[str, int | None]:
    """As `read_counts` answers."""
    known = json.loads(Path(os.environ["TOPICS"]).read_text())
    if known is None:
        message = "no broker answers"
        raise WorldChangeError(message)
    return {topic: known.get(topic) for topic in topics}


def die() -> None:
    """As by a power cut."""
    os.kill(os.getpid(), signal.SIGKILL)


def run(namespace: str, when: str) -> None:
    """Until it is killed."""
    point, _, number = when.partition(":")
    passed = Counter[str]()

    def at(step: str) -> None:
        passed.update((step, "any"))
        if point == "busy" and passed["any"] == 1:
            time.sleep(float(number))
        if point in (step, "any") and passed[point] == int(number):
            die()

    if point == "after":
        threading.Timer(float(number), die).start()
    options = OperatorOptions(
        PodPolicy(Installation("image")),
        tuple(namespace.split(",")),
        lease=os.environ["LEASE"] or None,
        topics_every=0.2,
        nodes=False,
        network=AppNetwork(),
        ports=(int(os.environ["PORT"]),) if os.environ["PORT"] else (),
        at=at,
    )
    # With real brokers, which are on this host, a test has no words of its own about topics.
    ask = counts if os.environ["TOPICS"] else broker_asker(AddressRule(never=()))
    asyncio.run(main.serve(replace(options, ask=ask)))


def logged(log: Path, run: Callable[[str, str], None], namespace: str, when: str) -> None:
    """Run such an operator with the environment that this process has by now; what it says goes to the log."""
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    kube_config.KUBE_CONFIG_DEFAULT_LOCATION = os.environ["KUBECONFIG"]  # read when it was imported, before the fork
    run(namespace, when)
