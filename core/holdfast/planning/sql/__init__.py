"""Spark SQL expressions of a spec: parsed, their names resolved, checked against the rows they see."""
