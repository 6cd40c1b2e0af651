"""Schemas from a registry that speaks Confluent's REST API: by id, of a subject, with all that they refer to.

Needs only the standard library. Must not know formats: a schema is a text of some kind.
"""
