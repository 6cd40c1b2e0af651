"""How much sooner slots would be done that never wait for each other: `python -m bench.nexmark.waiting`.

A batch lasts as long as its slowest slot. What each slot worked in each batch is measured while they do wait, so the
figure is a bound: it takes for granted that a slot could begin its next turn at once, and that the other ones would
leave it the processor.
"""

import argparse

from bench.nexmark.market import Market
from bench.nexmark.questions import QUESTIONS
from bench.nexmark.report import holdfast


def main() -> None:
    """Print a line for each query."""
    parser = argparse.ArgumentParser(prog="python -m bench.nexmark.waiting", description=__doc__)
    parser.add_argument("queries", nargs="*", default=list(QUESTIONS), help="which (default: all)")
    parser.add_argument("--batches", type=int, default=20, help="batches of events, the first two not counted")
    parser.add_argument("--events", type=int, default=200_000, help="events of a batch")
    chosen = parser.parse_args()
    market = Market(chosen.batches, chosen.events, 50_000)
    market.directory()
    print("query  events/s  without waiting")
    for name in chosen.queries:
        measured = holdfast(name, market, keep_rows=False)
        rate = measured.rows / measured.seconds
        print(f"{name:5} {rate:9,.0f}  {measured.notes['without waiting']:.2f}x", flush=True)


if __name__ == "__main__":
    main()
