"""Why: a generator made so many rows by when, in whichever attempt: its pace is begun once and kept with the run.

Must not make rows.
"""

import json
from collections.abc import Mapping

from holdfast.placement.metadata_store import MetadataStore
from holdfast_runtime.streams.pace import Pace


def kept_paces(store: MetadataStore, key: str, rates: Mapping[str, int], now: int) -> dict[str, Pace]:
    """Generator system -> its pace; those that are new or whose rate has changed are kept under this key."""
    stored = store.get(key)
    known = {} if stored is None else {name: Pace(*one) for name, one in json.loads(stored.value).items()}
    paces = {name: known[name].changed(rate, now) if name in known else Pace(rate, now) for name, rate in rates.items()}
    if not paces.items() <= known.items():
        tree = {name: [one.rows_per_second, one.since, one.before] for name, one in (known | paces).items()}
        store.put(key, json.dumps(tree).encode(), None if stored is None else stored.version)
    return paces
