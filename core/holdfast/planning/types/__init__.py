"""Spark SQL types: as values, as DDL, and as results of Spark's functions and operators."""
