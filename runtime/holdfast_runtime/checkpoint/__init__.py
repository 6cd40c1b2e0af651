"""Where offsets and copies lie: the offsets of a run, Spark's logs of them, whose a run's files are."""
