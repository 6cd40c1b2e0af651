"""Commands that need only the spec: plan, diff, explain, crd, schema; and how StreamApp files are read and repaired."""
