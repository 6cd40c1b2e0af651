"""An API server of its own: an operator that watches all namespaces must not see the apps of other tests."""

from tests.api.conftest import plane

__all__ = ["plane"]
