"""A real cluster of three nodes for tests, from Go modules and Debian packages, without a container registry."""
