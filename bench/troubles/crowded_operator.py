"""The operator of the edit storm, started as a program: memory of a forked one would be that of the tests too.

python -m bench.troubles.crowded_operator NAMESPACE LEASE PORT
"""

import asyncio
import sys

from bench.operator.child import counts
from holdfast_operator import main
from holdfast_operator.manifests.driver_pod import Installation
from holdfast_operator.manifests.pod_policy import PodPolicy
from holdfast_operator.wiring import OperatorOptions

if __name__ == "__main__":
    policy, (namespace, lease, port) = PodPolicy(Installation("image")), sys.argv[1:]
    options = OperatorOptions(policy, (namespace,), lease, ports=(int(port),), nodes=False, ask=counts)
    asyncio.run(main.serve(options))
