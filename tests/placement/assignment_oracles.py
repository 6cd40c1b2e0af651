"""How good an assignment can be, found in two other ways: by trying everything, and by a flow of least cost.

They share no code with what they judge, nor with each other. Both give (kept at location, kept on processor).
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Names = Mapping[str, str]


def best_of_all(tasks: Iterable[str], processors: Names, task_location: Names, ran_on: Names) -> tuple[int, int]:
    """Tries every processor for every task; of the ways to the same sizes, only the best need going on."""
    names, order = sorted(processors), list(tasks)
    least, most = len(order) // len(names), -(-len(order) // len(names))
    best = {(0,) * len(names): (0, 0)}
    for task in order:
        after: dict[tuple[int, ...], tuple[int, int]] = {}
        for sizes, (at_location, same) in best.items():
            for i, name in enumerate(names):
                if sizes[i] == most:
                    continue
                grown = (*sizes[:i], sizes[i] + 1, *sizes[i + 1 :])
                score = (at_location + (task_location.get(task) == processors[name]), same + (ran_on.get(task) == name))
                after[grown] = max(after.get(grown, score), score)
        best = after
    return max(score for sizes, score in best.items() if min(sizes) >= least)


def best_by_least_cost(tasks: Iterable[str], processors: Names, task_location: Names, ran_on: Names) -> tuple[int, int]:
    """One unit per task, successive cheapest paths; a task at its location outweighs all processors kept."""
    order = list(tasks)
    least, more = divmod(len(order), len(processors))
    weight = len(order) + 1
    graph = _Graph()
    graph.arc("extra", "sink", more, 0)
    for name, location in processors.items():
        graph.arc(("processor", name), "sink", least, 0)
        graph.arc(("processor", name), "extra", 1, 0)
        graph.arc(("location", location), ("processor", name), len(order), 0)
        graph.arc("anywhere", ("processor", name), len(order), 0)
    for task in order:
        graph.arc("source", ("task", task), 1, 0)
        graph.arc(("task", task), "anywhere", 1, 0)
        if task in task_location:
            graph.arc(("task", task), ("location", task_location[task]), 1, -weight)
        if task in ran_on and (previous := ran_on[task]) in processors:
            at_location = task_location.get(task) == processors[previous]
            graph.arc(("task", task), ("processor", previous), 1, -1 - weight * at_location)
    gain = -sum(graph.cheapest_path("source", "sink") for _ in order)
    return divmod(gain, weight)


@dataclass
class _Graph:
    arcs: list[list[int]] = field(default_factory=list)
    """Each with tail, head, what is left of its capacity, and cost; its reverse beside it."""
    numbers: dict[object, int] = field(default_factory=dict)
    leaving: list[list[int]] = field(default_factory=list)

    def number(self, vertex: object) -> int:
        if vertex not in self.numbers:
            self.numbers[vertex] = len(self.leaving)
            self.leaving.append([])
        return self.numbers[vertex]

    def arc(self, tail: object, head: object, capacity: int, cost: int) -> None:
        tail_number, head_number = self.number(tail), self.number(head)
        for arc in ([tail_number, head_number, capacity, cost], [head_number, tail_number, 0, -cost]):
            self.leaving[arc[0]].append(len(self.arcs))
            self.arcs.append(arc)

    def cheapest_path(self, source: object, sink: object) -> int:
        """Send one unit and give its cost (Bellman and Ford with a queue)."""
        start, end = self.number(source), self.number(sink)
        cost, by = {start: 0}, dict[int, int]()
        queue, queued = deque([start]), {start}
        while queue:
            vertex = queue.popleft()
            queued.discard(vertex)
            for index in self.leaving[vertex]:
                _, head, left, price = self.arcs[index]
                if left and cost[vertex] + price < cost.get(head, cost[vertex] + price + 1):
                    cost[head], by[head] = cost[vertex] + price, index
                    if head not in queued:
                        queued.add(head)
                        queue.append(head)
        vertex = end
        while vertex != start:
            self.arcs[by[vertex]][2] -= 1
            self.arcs[by[vertex] ^ 1][2] += 1
            vertex = self.arcs[by[vertex]][0]
        return cost[end]
