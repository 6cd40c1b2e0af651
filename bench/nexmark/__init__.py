"""The Nexmark benchmark: its events, and the StreamApps of `examples/nexmark` beside stock Structured Streaming.

`python -m bench.nexmark [--quick] [--runs N] [QUERY...]`. Must not be imported by the product.
"""
