"""What the planner understands of Spark SQL: schemas, expressions, and the types they give."""
