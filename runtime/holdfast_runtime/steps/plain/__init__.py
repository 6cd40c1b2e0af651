"""Verbs without state: `apply`, and the SQL that is computed without Spark."""
