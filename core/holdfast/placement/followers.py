"""Why: as many tasks as possible follow a processor that is not where their state is: step 3 of `optimal.py`.

Only tasks that have to leave their location may follow, or those that have none. What follows whom is a maximum flow,

    source -> sender -> processor -> receiver -> sink

out of a sender as many as it sends away, into a processor as many as it has seats beside the tasks at home, into a
receiver as many as it has seats beside its own tasks. Extra seats nobody has a claim to yet widen the last two, and
reduce the first. Must not weigh one follower against a task at home: that is settled before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from holdfast.placement.affinity import Affinity
from holdfast.placement.max_flow import Network
from holdfast.placement.optimal import ExtraSeats

Following = Mapping[str, tuple[str, ...]]
"""Processor -> tasks that come to it from another location, or from none, because they ran on it."""


@dataclass(frozen=True, slots=True)
class _Arcs:
    """Where to read the result."""

    spared: Mapping[str, int]
    """Sender -> arc of the extra seats it does without."""
    claimed: Mapping[str, int]
    """Receiver -> arc of the extra seats it needs."""
    followed: Mapping[tuple[str | None, str], int]
    """(Sender or None, processor) -> arc of the tasks that follow."""


def follow(wishes: Affinity, seats: ExtraSeats) -> tuple[Following, ExtraSeats]:
    """Who follows, and the extra seats that are still free to choose then."""
    receivers = {place for place in seats.most if wishes.beyond_floor(place) < seats.most[place]}
    wanting = {
        (sender, processor): tasks
        for (sender, processor), tasks in wishes.followers.items()
        if wishes.location_of[processor] in receivers and sender not in receivers
    }
    if not wanting:
        return {}, seats
    network = Network()
    source, sink = network.node(), network.node()
    arcs = _build(network, (source, sink), wishes, seats, wanting)
    network.maximise(source, sink)
    following: dict[str, tuple[str, ...]] = {}
    for (sender, processor), arc in arcs.followed.items():
        chosen = wanting[sender, processor][: network.flow(arc)]
        following[processor] = following.get(processor, ()) + chosen
    most = {place: seats.most[place] - network.flow(arc) for place, arc in arcs.spared.items()}
    least = {place: seats.least[place] + network.flow(arc) for place, arc in arcs.claimed.items()}
    return following, replace(seats, least={**seats.least, **least}, most={**seats.most, **most})


def _build(
    network: Network,
    ends: tuple[int, int],
    wishes: Affinity,
    seats: ExtraSeats,
    wanting: Mapping[tuple[str | None, str], tuple[str, ...]],
) -> _Arcs:
    source, sink = ends
    sparing, claiming = network.node(), network.node()
    network.arc(source, sparing, seats.excess)
    network.arc(claiming, sink, seats.unclaimed)

    leaving: dict[str | None, int] = {None: source}
    spared: dict[str, int] = {}
    for place in dict.fromkeys(sender for sender, _ in wanting if sender is not None):
        leaving[place] = network.node()
        network.arc(source, leaving[place], wishes.beyond_floor(place) - seats.most[place])
        spared[place] = network.arc(sparing, leaving[place], seats.open(place))

    entering, widening, claimed = {}, {}, {}
    for place in dict.fromkeys(wishes.location_of[processor] for _, processor in wanting):
        entering[place], widening[place] = network.node(), network.node()
        network.arc(entering[place], sink, seats.least[place] - wishes.beyond_floor(place))
        network.arc(entering[place], widening[place], seats.open(place))
        claimed[place] = network.arc(widening[place], claiming, seats.open(place))

    crowded = {place: wishes.crowded(place) for place in entering}
    arriving = {}
    for processor in dict.fromkeys(processor for _, processor in wanting):
        place, free = wishes.location_of[processor], wishes.floor - len(wishes.at_home[processor])
        arriving[processor] = network.node()
        network.arc(arriving[processor], entering[place], max(0, free))
        # A processor's own extra seat takes a follower, unless it has a task at home for it, or a neighbour still does:
        # the follower would then take the seat of that task and win nothing.
        if free >= 0 and seats.least[place] >= crowded[place]:
            network.arc(arriving[processor], widening[place], 1)

    followed = {
        (sender, processor): network.arc(leaving[sender], arriving[processor], len(tasks))
        for (sender, processor), tasks in wanting.items()
    }
    return _Arcs(spared, claimed, followed)
