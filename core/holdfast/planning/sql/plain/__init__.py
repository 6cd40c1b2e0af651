"""Plain expressions: those whose value is the same whoever computes it, so that rows need no trip to the JVM.

None can fail for a row, and nulls mean the same in Spark SQL and in Arrow. What may overflow is not among them: each
whole number and decimal is read with the bounds of its value, and a sum or a product is plain if no value within them
is too large for Spark's type. A DOUBLE has no bounds; NaN is compared as Spark does. Must not compute anything.
"""
