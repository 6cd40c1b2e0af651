"""The check that records lie where their stream's declared key puts them, in the first turns of a run.

Key and partitioner of an input are a statement about its producer. Where it is wrong, equal keys are in different
tasks: a join misses rows, and a count is split. So the app stops before it has made anything of that, and says what
fits. A few strays are let pass, since they can't be taken back. Must not look at streams whose key nothing depends on.
"""

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.spec.streams import Partitioner, Stream
from holdfast.spec.verbs import KEYED_VERBS
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.segments.graph import CompiledGraph, GraphNode
from holdfast_runtime.streams.record_keys import key_bytes, misplaced_keys, place

FIRST_TURNS = 20
"""So many turns of a task are looked at; later it would be too late to stop."""
_MOST_KEYS = 1_000
_FEWEST, _SHARE = 3, 4
"""So many different keys, and one in so many of all, must be elsewhere."""
_SHOWN = 60


def streams_by_key(compiled: CompiledGraph) -> frozenset[str]:
    """Return the streams whose rows reach a step, or a table, that needs equal keys in one task."""
    reach = compiled.reach()
    return frozenset[str]().union(*(reach[node.index] for node in compiled.nodes if _needs_keys(node)))


def _needs_keys(node: GraphNode) -> bool:
    if node.verb == "lookup":
        return node.lookup is not None and not node.lookup.shared
    return node.verb in (*KEYED_VERBS, "toTable")


class KeyCheck:
    """The keys of one stream that were seen so far."""

    def __init__(self, declared: Stream, partitions: int) -> None:
        self._declared, self._partitions = declared, partitions
        self._keys: dict[StreamPartition, set[bytes]] = {}

    def look(self, partition: StreamPartition, rows: pa.RecordBatch) -> None:
        """Take note of the keys of some rows; raise an error if it is clear by now that they belong elsewhere."""
        keys = self._keys.setdefault(partition, set())
        if len(keys) >= _MOST_KEYS:
            return
        fresh = key_bytes(rows.slice(0, _MOST_KEYS), self._declared.partition_key).unique().drop_null()
        keys.update(fresh.to_pylist())
        known = pa.array(sorted(keys), pa.binary())
        elsewhere = self._misplaced(known, partition, self._declared.partitioner)
        if len(elsewhere) >= _FEWEST and len(elsewhere) * _SHARE > len(known):
            raise self._error(partition, known, elsewhere)

    def _misplaced(self, keys: pa.Array, partition: StreamPartition, partitioner: Partitioner) -> pa.Array:
        return misplaced_keys(keys, partition.partition, self._partitions, partitioner)

    def _error(self, partition: StreamPartition, keys: pa.Array, elsewhere: pa.Array) -> UserActionError:
        declared, first = self._declared, elsewhere[0].as_py()
        (belongs,) = place(elsewhere[:1], self._partitions, declared.partitioner).tolist()
        partitioners: tuple[Partitioner, ...] = ("murmur2", "crc32")
        fitting = [known for known in partitioners if not len(self._misplaced(keys, partition, known))]
        cure = (
            f"{fitting[0]} fits all of them: write partitioner: {fitting[0]}, and a new spec.runId"
            if fitting
            else "no partitioner that Holdfast knows fits them: their producer places records by something else, has "
            "keys in another form or none, or the topic has grown since. Leave key out, and repartition by it before "
            "steps that need it; or write partitioner: none if the producer does place equal keys together. Either "
            "asks for a new spec.runId"
        )
        return UserActionError(
            f"of {len(keys)} different keys in {partition}, {len(elsewhere)} belong into other partitions by the key "
            f"({', '.join(declared.partition_key or ())}) and partitioner ({declared.partitioner}) that stream "
            f"{declared.name} declares: {first[:_SHOWN]!r} would be in {declared.name}/{belongs}. Steps that need "
            f"equal keys in one task would give wrong results. {cure}",
            code="KeyMisdeclaredError",
        )
