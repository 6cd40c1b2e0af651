"""The stream systems of an app put together: which system holds which stream. Knows the log, generators and Kafka."""
