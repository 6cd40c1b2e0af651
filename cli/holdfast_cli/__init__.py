"""The `holdfast` command: a thin layer that reads files, calls the packages below it, and prints."""
