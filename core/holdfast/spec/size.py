"""Why: how large a StreamApp may be, counted before anything looks at it: what comes behind may recurse and copy.

Must not know what the tree means. Never recurses itself.
"""

from holdfast.spec.node_rules_part import Path

MOST_VALUES = 100_000
"""Objects, lists and what is in them; a thousand steps of ninety expressions each."""
MOST_LEVELS = 64
"""Of objects and lists inside each other; a pod template has a dozen."""


def too_large(tree: object) -> tuple[Path, str] | None:
    """Where a tree is larger than anybody means, and what to do; None where it is not."""
    todo: list[tuple[object, Path]] = [(tree, ())]
    values = 1
    while todo:
        node, path = todo.pop()
        if isinstance(node, dict):
            children = list(node.items())
        elif isinstance(node, list | tuple):
            children = list(enumerate(node))
        else:
            continue
        if len(path) >= MOST_LEVELS:
            return path[:3], f"is nested in more than {MOST_LEVELS} levels; make it flatter"
        values += len(children)
        if values > MOST_VALUES:
            return path[:3], (
                f"with what is in it the app has more than {MOST_VALUES} values (this one alone has {len(children)}); "
                "make it smaller, or several apps of it"
            )
        todo += [(child, (*path, part)) for part, child in children if isinstance(child, dict | list | tuple)]
    return None
