"""Spark as the engine uses it: session, settings, Java, jobs whose slots run where their state is."""
