"""Plain expressions: those whose value is the same whoever computes it, so that rows need no trip to the JVM.

Nulls mean the same in Spark SQL and in Arrow. Each whole number and decimal is read with the bounds of its value: if no
value within them is too large for Spark's type, nothing can fail for a row. What may fail is a function of its own
(`FAILING`), and stands only where Spark computes it for each row. A DOUBLE has no bounds, and NaN is compared as Spark
does. Must not compute anything.
"""
