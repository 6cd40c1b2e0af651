"""Reading Kafka: exact ranges of topics as Arrow batches."""
