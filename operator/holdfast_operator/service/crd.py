"""Why: kopf asks once, as it starts, which kinds there are: begun before the CRD, it would never watch an app.

Whoever installs the CRD may come later. Must not install it.
"""

import asyncio
import logging

from holdfast_operator.cluster.client import APP, Cluster, ClusterUnreachableError

_LOG = logging.getLogger("holdfast")
_EVERY = 2.0


async def wait_for_crd(cluster: Cluster) -> None:
    """Return as soon as apps can be watched."""
    served = await _served(cluster)
    if not served:
        _LOG.warning("waiting for the CRD %s.%s", APP.plural, APP.api.partition("/")[0])
    while not served:
        await asyncio.sleep(_EVERY)
        served = await _served(cluster)


async def _served(cluster: Cluster) -> bool:
    try:
        return await cluster.serves(APP)
    except ClusterUnreachableError:
        return False
