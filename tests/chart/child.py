"""An operator in a process of its own that watches all namespaces and all nodes, as the chart installs it.

Must not change what it does.
"""

import asyncio
import os

from holdfast_operator import main
from holdfast_operator.manifests.driver_pod import Installation
from holdfast_operator.manifests.network_policy import AppNetwork
from holdfast_operator.manifests.pod_policy import PodPolicy
from holdfast_operator.wiring import OperatorOptions
from tests.api.child import counts


def run(_namespace: str, _when: str) -> None:
    """As `tests.api.child` does; it heeds neither."""
    options = OperatorOptions(
        PodPolicy(Installation("image")), lease=os.environ["LEASE"], topics_every=0.2, network=AppNetwork(), ask=counts
    )
    asyncio.run(main.serve(options))
