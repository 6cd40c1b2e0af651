"""Change records of databases: as connectors have written them, drawn beside a model, and mutated."""
