"""The route through a small world: which transition comes next.

Of those that are left, one that can be taken here comes next, or else one that is as near as any: a
greedy solution of the postman's problem.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from conformance.small_worlds.graph import Graph
from conformance.small_worlds.view import Key


class Route:
    """The transitions of a ``graph`` that are left, ``count`` of them, and the way to the next."""

    def __init__(self, graph: Graph, left: Collection[int] | None = None) -> None:
        self.graph = graph
        self._left = [
            {edge for edge in range(len(edges)) if left is None or first + edge in left}
            for first, edges in zip(graph.firsts, graph.edges, strict=False)
        ]
        self._ways = [
            {after: edge for edge, (_, after) in enumerate(edges) if after < len(graph.edges)}
            for edges in graph.edges
        ]
        self.count = sum(map(len, self._left))

    def next(self, key: Key, client: int | None) -> int | None:
        """Return the transition to take; of the client at this place, and back to here, if any is.

        None if no way leads to anything that is left.
        """
        state = self.graph.numbers.get(key)
        if state is None or state >= len(self._left):
            return None
        edges = self.graph.edges[state]

        def detour(edge: int) -> tuple[bool, bool, int]:
            action, after = edges[edge]
            return action.client != client, after != state, edge

        left = self._left[state]
        edge = min(left, key=detour) if left else self._towards(state)
        return None if edge is None else self.graph.firsts[state] + edge

    def take(self, transition: int) -> bool:
        """Note that a transition has been taken; tell whether it was the first time."""
        state, edge = self.graph.place(transition)
        is_new = edge in self._left[state]
        self._left[state].discard(edge)
        self.count -= is_new
        return is_new

    def _towards(self, state: int) -> int | None:
        """Return the first edge on a shortest way to where a transition is left."""
        first: dict[int, int] = {state: -1}
        queue = deque([state])
        while queue:
            here = queue.popleft()
            if self._left[here]:
                return first[here]
            for there, edge in self._ways[here].items():
                if there not in first:
                    first[there] = edge if here == state else first[here]
                    queue.append(there)
        return None
