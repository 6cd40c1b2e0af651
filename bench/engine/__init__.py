"""The engine beside stock Structured Streaming, on the same files, settings known, results checked equal.

`python bench/engine [--quick] [--runs N] [NAME...]`, names as in `report.benchmarks`. `transformWithState` needs
protobuf, which PySpark does not ask for: it comes with the extra `bench`. Must not be imported by the product.
"""
