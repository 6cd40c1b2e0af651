"""The Spark application that a StreamApp becomes: driver and executors. Imports the core, never the operator."""
