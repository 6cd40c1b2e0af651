"""Which of many series a graph shows: those that matter in all of its time, so that none comes and goes.

The choice is made once, at the end of the graph's time: made at each of its points, ten series would become dozens.
Must not know what a metric means.
"""


def worst(query: str, over_all: str, by: str) -> str:
    """Return a query for the ten series, told apart by these labels, of which `over_all` is the largest."""
    return f"{query} and on ({by}) topk(10, {over_all})"


def risen(series: str, by: str = "") -> str:
    """Return a query for how much counters rose in five minutes, of those that rose at all in the graph's time."""
    total = f"sum by ({by})" if by else "sum"
    return f"{total} (increase({series}[5m])) and {total} (increase({series}[$__range] @ end())) > 0"
