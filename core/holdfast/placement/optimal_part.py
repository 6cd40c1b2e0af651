"""Why: which processors get the extra seats and which tasks follow a processor that moved: the exact part of `assign`.

With `n` tasks on `p` processors every processor has `floor = n // p` seats and `n % p` of them one more; so sizes are
right whatever is chosen here. What is left to choose is how many extra seats each location gets, and where tasks go
whose previous processor is not where their state is. Exactness, in the order of the objectives:

1. *At their location.* A location keeps as many tasks as it has seats, at most those recorded there. So an extra seat
   is worth one up to `wish = recorded - floor * processors`, then nothing. If the wishes, cut to `0..processors`, fit
   into the extra seats, the best choices are exactly those that grant all of them; else exactly those that give nothing
   beyond a wish. Either way a least and a most per location say it all (`ExtraSeats`), and whatever is chosen between
   them a location is either a *sender*, full of its own tasks and sending the rest away, or a *receiver*, which keeps
   all of its own and takes others into the seats left. Tasks travel from senders, or from nowhere, to receivers.
2. *On their processor, at home.* A processor with more tasks at home than the floor keeps one more with an extra seat.
   Taking that seat from a processor that has no such use for it wins this one task and costs at most one follower: in
   the flow of step 3, one unit less leaves a sender or one unit less enters a receiver. So narrowing least and most by
   these wishes too leaves a best choice in. For the same reason a task at home goes before a follower where one
   processor has no seat for both: one task is kept either way, and the two can change seats within the location.
3. *On their processor, followers.* A task that leaves its sender, or has no location, may go to its previous processor
   if that one is at a receiver. How many can do so at once is a maximum flow (`followers.py`). What does not follow has
   no wish left that could be fulfilled, and any free seat is as good to it as any other.

The tests hold this against exhaustive search, and against a general flow of least cost over single tasks.
"""

from dataclasses import dataclass

from holdfast.placement.affinity import Affinity
from holdfast.placement.followers import Following, follow
from holdfast.placement.optimal import ExtraSeats


@dataclass(frozen=True, slots=True)
class SeatChoice:
    """What decides how good an assignment is; the rest is filling seats."""

    extra: frozenset[str]
    """Processors with a seat more than the floor."""
    following: Following


def best_choice(wishes: Affinity) -> SeatChoice:
    """One of the best choices; which one depends on names only."""
    seats = ExtraSeats(
        total=wishes.extra,
        least=dict.fromkeys(wishes.members, 0),
        most={location: len(members) for location, members in wishes.members.items()},
    )
    seats = seats.narrowed({location: wishes.beyond_floor(location) for location in wishes.members})
    seats = seats.narrowed({location: wishes.crowded(location) for location in wishes.members})
    following, seats = follow(wishes, seats)
    return SeatChoice(_given_out(wishes, seats, following), following)


def _given_out(wishes: Affinity, seats: ExtraSeats, following: Following) -> frozenset[str]:
    """Who has an extra seat: first who fills it with its own, then who takes in others anyway, then by name.

    The second rule only spares others: with an extra seat, the part of a processor that is full would change too.
    """
    rank = {}
    for processor in wishes.processors:
        own = len(wishes.at_home[processor]) + len(following.get(processor, ()))
        rank[processor] = 0 if own > wishes.floor else 1 if own < wishes.floor else 2
    order = sorted(wishes.processors, key=rank.__getitem__)
    given: set[str] = set()
    count = dict.fromkeys(wishes.members, 0)
    for limit, total in ((seats.least, sum(seats.least.values())), (seats.most, seats.total)):
        for processor in order:
            place = wishes.location_of[processor]
            if len(given) < total and processor not in given and count[place] < limit[place]:
                given.add(processor)
                count[place] += 1
    return frozenset(given)
