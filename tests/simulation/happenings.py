"""What can happen in a life, by name: acts of tenants, and faults.

Each is a function of the world and of its own random numbers, so that a life can be lived again without some of what
happened. Must not check anything.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation import faults, tenants
from tests.simulation.objects import RefusedCallError
from tests.simulation.world import World

Happens = Callable[[World, random.Random], None]


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happens at a time."""

    at: float
    what: str
    number: int
    """From which its random numbers follow."""

    def happen(self, world: World) -> None:
        world.note(f"--- {self.what}")
        try:
            HAPPENINGS[self.what](world, random.Random(self.number))  # noqa: S311 - to be repeated
        except RefusedCallError as refused:
            world.note(f"refused: {refused}")


HAPPENINGS: dict[str, Happens] = {
    "a tenant makes an app": tenants.make_any,
    "a tenant edits an app": tenants.edit_any,
    "a tenant starts a new run": tenants.new_run,
    "a tenant changes the image": tenants.break_image,
    "a tenant mistypes the image": tenants.mistype_image,
    "a trial fails": faults.fail_trial,
    "a tenant suspends or resumes an app": tenants.suspend,
    "a tenant breaks or mends a spec": tenants.break_spec,
    "a tenant deletes an app": tenants.remove_any,
    "a tenant takes the finalizer away": tenants.remove_finalizer,
    "a tenant edits a status": tenants.lose_status,
    "a tenant deletes a ConfigMap": tenants.lose_map,
    "a tenant spoils the namespace's lease": tenants.spoil_lease,
    "a tenant deletes a pod": tenants.delete_pod,
    "a pod forges a report": tenants.forge_report,
    "a driver ends": faults.end_driver,
    "an executor ends": faults.end_executor,
    "a node is lost": faults.lose_node,
    "the network is slow": faults.slow_network,
    "calls get lost": faults.lose_calls,
    "a quota is full": faults.fill_quota,
    "a server lags": faults.lag_server,
    "a server is started again": faults.stop_server,
    "all servers are started again": faults.stop_servers,
    "watches die silently": faults.deafen_watches,
    "history is compacted": faults.compact_history,
    "an operator is killed": faults.kill_operator,
    "brokers are away": faults.brokers_away,
    "a topic grows": faults.topics_grow,
    "a topic is lost": faults.topic_lost,
    "a pod forges an attempt's number": tenants.forge_number,
    "a foreign pod bears an app's labels": tenants.foreign_set,
    "a right is taken for a while": faults.take_right,
    "a driver hangs": faults.hang_driver,
    "a tenant gives an input an end": tenants.bound_input,
    "a tenant names a Secret": tenants.log_in,
    "a Secret changes": tenants.change_login,
    "a NetworkPolicy is opened or deleted": tenants.spoil_policy,
    "a foreign NetworkPolicy has an app's name": tenants.foreign_policy,
    "the storage class is away": faults.class_away,
}
DEAFENING = frozenset({"watches die silently", "a right is taken for a while", "all servers are started again"})
"""After which an operator may be ended by its probe: only a new one hears again."""
