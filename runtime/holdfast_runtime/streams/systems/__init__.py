"""The stream systems of an app: which system holds which stream. Knows the log, generators and Kafka."""
