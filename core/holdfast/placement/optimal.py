"""The exact part of `assign`: extra capacity of locations, and tasks that follow a processor that moved.

With `n` tasks on `p` processors every processor takes `floor = n // p` tasks and `n % p` of them one more, which is an
extra unit of capacity, so the sizes are right whatever is chosen here. Why the result is optimal, in the order of the
objectives (docs/decisions/0005-assignment-is-exact.md):

1. *At their location.* A location keeps as many tasks as it has capacity, at most those recorded there. So an extra
   unit is worth one up to `wish = recorded - floor * processors`, then nothing. If the wishes, cut to
   `0..processors`, fit into the extra units, the best choices are exactly those that grant all of them; else exactly
   those that give nothing beyond a wish. Either way a least and a most per location describe all best choices
   (`ExtraCapacity`); later steps only narrow them. Within these limits a location is either a *sender*, full of its own
   tasks and sending the rest away, or a *receiver*, which keeps all of its own and takes others. Tasks move from
   senders, or from no location, to receivers.
2. *On their processor, local tasks.* A processor with more local tasks than the floor keeps one more with an extra
   unit. Taking that unit from a processor that does not need it gains this one task and costs at most one follower
   (one task less leaves a sender or enters a receiver), so at least one best choice is left after narrowing by these
   wishes too. For the same reason a local task goes before a follower if one processor has no capacity for both.
3. *On their processor, followers.* A task that leaves its sender, or has no location, may go to its previous
   processor if that one is at a receiver. How many can do so at once is a maximum flow, source -> sender ->
   processor -> receiver -> sink. Capacities: what a sender sends away, what a processor takes beside its local
   tasks, what a receiver takes beside its own tasks; unclaimed extra units increase the last two and reduce the first.
   For a task that does not follow, all free capacity is equally good.

The tests compare this with exhaustive search, and with a general minimum-cost flow over single tasks. Must not weigh
a follower against a local task, nor choose which processor of a location gets its extra units.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from holdfast.placement.affinity import Affinity

_UNSEEN = -1


@dataclass(frozen=True, slots=True)
class ExtraCapacity:
    """A number of extra units, and the least and the most of them that each location gets.

    `sum(least) <= total <= sum(most)` always holds, so there is always a way to distribute them.
    """

    total: int
    least: Mapping[str, int]
    most: Mapping[str, int]

    @property
    def unclaimed(self) -> int:
        """How many are left if every location gets its least."""
        return self.total - sum(self.least.values())

    @property
    def excess(self) -> int:
        """How many are missing if every location gets its most."""
        return sum(self.most.values()) - self.total

    def open(self, location: str) -> int:
        """How many extra units of this location are still undecided."""
        return self.most[location] - self.least[location]

    def narrowed(self, wish: Mapping[str, int]) -> "ExtraCapacity":
        """Return all best distributions, if a unit is worth one up to a location's wish and nothing beyond it.

        If all wishes can be granted, the best ones grant them all; if not, the best ones give nothing beyond a wish.
        """
        granted = {
            location: min(max(wish[location], self.least[location]), self.most[location]) for location in self.least
        }
        if sum(granted.values()) <= self.total:
            return replace(self, least=granted)
        return replace(self, most=granted)


Following = Mapping[str, tuple[str, ...]]
"""Processor -> tasks that come to it from another location, or from none, because they ran on it before."""


@dataclass(frozen=True, slots=True)
class _Arcs:
    """The arcs whose flow is the result."""

    spared: Mapping[str, int]
    """Sender -> arc of the extra units it does without."""
    claimed: Mapping[str, int]
    """Receiver -> arc of the extra units it needs."""
    followed: Mapping[tuple[str | None, str], int]
    """(Sender or None, processor) -> arc of the tasks that follow."""


def follow(wishes: Affinity, extra: ExtraCapacity) -> tuple[Following, ExtraCapacity]:
    """Return the tasks that follow their processor, and the extra capacity narrowed accordingly."""
    receivers = {location for location in extra.most if wishes.beyond_floor(location) < extra.most[location]}
    wanting = {
        (sender, processor): tasks
        for (sender, processor), tasks in wishes.followers.items()
        if wishes.location_of[processor] in receivers and sender not in receivers
    }
    if not wanting:
        return {}, extra
    network = Network()
    source, sink = network.vertex(), network.vertex()
    arcs = _build(network, (source, sink), wishes, extra, wanting)
    network.maximise(source, sink)
    following: dict[str, tuple[str, ...]] = {}
    for (sender, processor), arc in arcs.followed.items():
        chosen = wanting[sender, processor][: network.flow(arc)]
        following[processor] = following.get(processor, ()) + chosen
    most = {location: extra.most[location] - network.flow(arc) for location, arc in arcs.spared.items()}
    least = {location: extra.least[location] + network.flow(arc) for location, arc in arcs.claimed.items()}
    return following, replace(extra, least={**extra.least, **least}, most={**extra.most, **most})


def _build(
    network: "Network",
    ends: tuple[int, int],
    wishes: Affinity,
    extra: ExtraCapacity,
    wanting: Mapping[tuple[str | None, str], tuple[str, ...]],
) -> _Arcs:
    source, sink = ends
    sparing, claiming = network.vertex(), network.vertex()
    network.arc(source, sparing, extra.excess)
    network.arc(claiming, sink, extra.unclaimed)

    leaving: dict[str | None, int] = {None: source}
    spared: dict[str, int] = {}
    for location in dict.fromkeys(sender for sender, _ in wanting if sender is not None):
        leaving[location] = network.vertex()
        network.arc(source, leaving[location], wishes.beyond_floor(location) - extra.most[location])
        spared[location] = network.arc(sparing, leaving[location], extra.open(location))

    entering, widening, claimed = {}, {}, {}
    for location in dict.fromkeys(wishes.location_of[processor] for _, processor in wanting):
        entering[location], widening[location] = network.vertex(), network.vertex()
        network.arc(entering[location], sink, extra.least[location] - wishes.beyond_floor(location))
        network.arc(entering[location], widening[location], extra.open(location))
        claimed[location] = network.arc(widening[location], claiming, extra.open(location))

    crowded = {location: wishes.crowded(location) for location in entering}
    arriving = {}
    for processor in dict.fromkeys(processor for _, processor in wanting):
        location, free = wishes.location_of[processor], wishes.floor - len(wishes.local_tasks[processor])
        arriving[processor] = network.vertex()
        network.arc(arriving[processor], entering[location], max(0, free))
        # An extra unit of this processor can take a follower, unless this processor or another one at its location
        # still needs the unit for a local task: the follower would take it from that task and gain nothing.
        if free >= 0 and extra.least[location] >= crowded[location]:
            network.arc(arriving[processor], widening[location], 1)

    followed = {
        (sender, processor): network.arc(leaving[sender], arriving[processor], len(tasks))
        for (sender, processor), tasks in wanting.items()
    }
    return _Arcs(spared, claimed, followed)


@dataclass(frozen=True, slots=True)
class AssignmentChoice:
    """The choices that decide how good an assignment is; the rest is filling up."""

    extra: frozenset[str]
    """Processors that take one task more than the floor."""
    following: Following


def best_choice(wishes: Affinity) -> AssignmentChoice:
    """Return one of the best choices; which one depends only on names."""
    extra = ExtraCapacity(
        total=wishes.extra,
        least=dict.fromkeys(wishes.members, 0),
        most={location: len(members) for location, members in wishes.members.items()},
    )
    extra = extra.narrowed({location: wishes.beyond_floor(location) for location in wishes.members})
    extra = extra.narrowed({location: wishes.crowded(location) for location in wishes.members})
    following, extra = follow(wishes, extra)
    return AssignmentChoice(_given_out(wishes, extra, following), following)


def _given_out(wishes: Affinity, extra: ExtraCapacity, following: Following) -> frozenset[str]:
    """The processors that get an extra unit: first those that fill it with their own tasks, then those below the floor.

    The others come last, in the order of names: they are exactly full, and an extra unit would change their tasks too.
    """
    rank = {}
    for processor in wishes.processors:
        task_count = len(wishes.local_tasks[processor]) + len(following.get(processor, ()))
        rank[processor] = 0 if task_count > wishes.floor else 1 if task_count < wishes.floor else 2
    order = sorted(wishes.processors, key=rank.__getitem__)
    receivers: set[str] = set()
    count = dict.fromkeys(wishes.members, 0)
    for limit, total in ((extra.least, sum(extra.least.values())), (extra.most, extra.total)):
        for processor in order:
            location = wishes.location_of[processor]
            if len(receivers) < total and processor not in receivers and count[location] < limit[location]:
                receivers.add(processor)
                count[location] += 1
    return frozenset(receivers)


class Network:
    """A flow network: vertices are numbers, arcs have integer capacities; the reverse of arc `i` is `i ^ 1`.

    `maximise` is Dinic's algorithm: rounds of breadth-first levels, each with a blocking flow along shortest paths.
    Arcs are tried in the order in which they were added, so equal networks give equal flows.
    """

    def __init__(self) -> None:
        self._head: list[int] = []
        self._left: list[int] = []
        self._arcs: list[list[int]] = []

    def vertex(self) -> int:
        """Add a vertex and return its number."""
        self._arcs.append([])
        return len(self._arcs) - 1

    def arc(self, tail: int, head: int, capacity: int) -> int:
        """Add an arc and return its number, for `flow`."""
        arc = len(self._head)
        self._head += (head, tail)
        self._left += (capacity, 0)
        self._arcs[tail].append(arc)
        self._arcs[head].append(arc ^ 1)
        return arc

    def flow(self, arc: int) -> int:
        """Return the flow through this arc."""
        return self._left[arc ^ 1]

    def maximise(self, source: int, sink: int) -> None:
        """Send the maximum flow from source to sink."""
        while (level := self._levels(source, sink))[sink] != _UNSEEN:
            self._block(source, sink, level)

    def _levels(self, source: int, sink: int) -> list[int]:
        level = [_UNSEEN] * len(self._arcs)
        level[source] = 0
        todo = deque([source])
        while todo and level[sink] == _UNSEEN:
            vertex = todo.popleft()
            for arc in self._arcs[vertex]:
                head = self._head[arc]
                if self._left[arc] and level[head] == _UNSEEN:
                    level[head] = level[vertex] + 1
                    todo.append(head)
        return level

    def _block(self, source: int, sink: int, level: list[int]) -> None:
        """Send flow along shortest paths until each has a full arc; a loop, as paths may be too long to recurse."""
        untried = [0] * len(self._arcs)  # arcs before this index are full or dead ends for the rest of this round
        path: list[int] = []
        vertex = source
        while True:
            if vertex == sink:
                vertex = self._push(path)
                continue
            arcs = self._arcs[vertex]
            while untried[vertex] < len(arcs):
                arc = arcs[untried[vertex]]
                if self._left[arc] and level[self._head[arc]] == level[vertex] + 1:
                    break
                untried[vertex] += 1
            if untried[vertex] < len(arcs):
                path.append(arcs[untried[vertex]])
                vertex = self._head[path[-1]]
            elif path:
                vertex = self._head[path.pop() ^ 1]
                untried[vertex] += 1
            else:
                return

    def _push(self, path: list[int]) -> int:
        """Send what the path can carry, cut it at its first full arc, and return the vertex it then ends at."""
        amount = min(self._left[arc] for arc in path)
        for arc in path:
            self._left[arc] -= amount
            self._left[arc ^ 1] += amount
        cut = next(i for i, arc in enumerate(path) if not self._left[arc])
        vertex = self._head[path[cut] ^ 1]
        del path[cut:]
        return vertex
