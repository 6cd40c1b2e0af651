"""What a build does with Spark's jars."""
