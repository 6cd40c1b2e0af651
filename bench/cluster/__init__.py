"""What a cluster does to an app, in seconds: Holdfast beside stock Structured Streaming on the same nodes.

`python bench/cluster [--runs N] [WHAT...]`, names as in `measures.WHATS`. The cluster is that of `make cluster`, and
what stands on it is made as `tests/kind` makes it. Must not be imported by the product.
"""
