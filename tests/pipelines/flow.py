"""Where the rows of an app go: which steps they reach, and from which they come.

Trees may be edited ones that leave out what a step needs; no run takes those.
"""

from collections.abc import Iterator

from tests.pipelines.drawn import Tree


def is_behind_event_time(tree: Tree, name: str | None) -> bool:
    """Whether rows reach the step that come out when event time has passed."""
    steps = {step.get("name"): step for step in tree["steps"]}
    reached, waiting = set[str](), [*steps[name].get("from", ())] if name in steps else []
    while waiting:
        source = waiting.pop()
        if source in steps and source not in reached:
            reached.add(source)
            waiting += steps[source].get("from", ())
    return any({"aggregate", "join"} & steps[source].keys() for source in reached)


def tables_written_from(stream: str | None, tree: Tree) -> set[str]:
    """Return the tables to which steps write rows of the stream."""
    return {step["toTable"] for step in _reached_from(stream, tree) if "toTable" in step}


def looks_up_what_changes(tree: Tree) -> bool:
    """Whether rows look up what is written while they are on their way, or what is forgotten when an attempt ends."""
    written = {table.get("name"): table for table in tree.get("tables", ()) if "sources" not in table}
    if not all(table.get("persistent", True) for table in written.values()):
        return True
    return any(
        step["lookup"].get("table") in written
        for stream in tree["streams"]
        if tables_written_from(stream.get("name"), tree)
        for step in _reached_from(stream.get("name"), tree)
        if "lookup" in step
    )


def goes_by_time_since(before: Tree, after: Tree) -> bool:
    """Whether a `deduplicate` has `within` that had none.

    Behind a merge, which of two rows came first follows from how batches were cut, and behind `process` the event time
    of a row does. Apps are drawn without `within` there.
    """
    timeless = {step.get("name") for step in before["steps"] if "within" not in step.get("deduplicate", {"within": ""})}
    return any(step.get("name") in timeless and step.get("deduplicate", {}).get("within") for step in after["steps"])


def _reached_from(stream: str | None, tree: Tree) -> Iterator[Tree]:
    waiting, reached = [stream], {stream}
    while waiting:
        source = waiting.pop()
        for step in tree["steps"]:
            if source in step.get("from", ()) and step.get("name") not in reached:
                reached.add(step.get("name"))
                waiting.append(step.get("name"))
                yield step
