"""Types of Kafka Connect, in which Debezium says what the values of a record mean, and the columns that take them."""
