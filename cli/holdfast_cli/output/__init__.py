"""How results are shown: consoles, tables, live screens, numbers, YAML, failures as JSON."""
