"""Spark SQL's types: as values, as DDL, and the result types of Spark's functions and operators."""
