"""Aggregate functions in their merging form: what a group of rows leaves behind, and how such remains become one."""
