"""Plain expressions: those whose value is the same whoever computes it, so that rows need no trip to the JVM.

None can fail for a row, and nulls mean the same in Spark SQL and in Arrow. Numbers of type DOUBLE are not among them
(Spark takes NaN for equal to NaN), nor what may overflow: each number is read with the bounds of its value, and a sum
or a product is plain if no value within them is too large for Spark's type. Must not compute anything.
"""
