"""Spark as the engine uses it: session, settings, Java, jobs whose parts run where their state is."""
