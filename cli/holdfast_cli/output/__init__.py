"""Output formats: consoles, tables, live screens, numbers, YAML, failures as JSON."""
