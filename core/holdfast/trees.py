"""Objects of Kubernetes, and parts of files, as trees of what JSON has."""

from collections.abc import Mapping
from typing import Any

Tree = dict[str, Any]
ReadTree = Mapping[str, Any]
"""A tree that its reader does not change."""
