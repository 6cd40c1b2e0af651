"""The maximum flow of a network by Dinic's algorithm, on which `assign` is built.

Rounds of breadth-first levels over arrays, each with a blocking flow along shortest paths. Arcs are tried in the
order in which they were added, so equal networks give equal flows. Must not know what flows.
"""

from collections import deque

_UNSEEN = -1


class Network:
    """A flow network: nodes are numbers, arcs have integer capacities; the reverse of arc `i` is `i ^ 1`."""

    def __init__(self) -> None:
        self._head: list[int] = []
        self._left: list[int] = []
        self._arcs: list[list[int]] = []

    def node(self) -> int:
        """Add a node and return its number."""
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
            node = todo.popleft()
            for arc in self._arcs[node]:
                head = self._head[arc]
                if self._left[arc] and level[head] == _UNSEEN:
                    level[head] = level[node] + 1
                    todo.append(head)
        return level

    def _block(self, source: int, sink: int, level: list[int]) -> None:
        """Send flow along shortest paths until each has a full arc; a loop, as paths may be too long to recurse."""
        untried = [0] * len(self._arcs)  # arcs before this index are full or dead ends for the rest of this round
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                node = self._push(path)
                continue
            arcs = self._arcs[node]
            while untried[node] < len(arcs):
                arc = arcs[untried[node]]
                if self._left[arc] and level[self._head[arc]] == level[node] + 1:
                    break
                untried[node] += 1
            if untried[node] < len(arcs):
                path.append(arcs[untried[node]])
                node = self._head[path[-1]]
            elif path:
                node = self._head[path.pop() ^ 1]
                untried[node] += 1
            else:
                return

    def _push(self, path: list[int]) -> int:
        """Send what the path can carry, cut it at its first full arc, and return the node it then ends at."""
        amount = min(self._left[arc] for arc in path)
        for arc in path:
            self._left[arc] -= amount
            self._left[arc ^ 1] += amount
        cut = next(i for i, arc in enumerate(path) if not self._left[arc])
        node = self._head[path[cut] ^ 1]
        del path[cut:]
        return node
