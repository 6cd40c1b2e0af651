"""Why: a `MetadataStore` for one process: tests, and local runs that need to remember nothing.

The reference the other stores are compared with. Must not outlive its process or read a clock.
"""

from threading import Lock

from holdfast.placement.metadata_store import (
    DEFAULT_BUDGET,
    Version,
    Versioned,
    check_key,
    check_size,
    check_version,
)


class MemoryStore:
    """Keys to bytes, gone with the process. Threads may share it."""

    def __init__(self, *, budget: int = DEFAULT_BUDGET) -> None:
        self.budget = budget
        self._values: dict[str, Versioned] = {}
        self._puts = 0
        self._lock = Lock()

    def get(self, key: str) -> Versioned | None:
        """The value of this key."""
        return self._values.get(check_key(key))

    def put(self, key: str, value: bytes, expected: Version | None) -> Version:
        """Write this value over the expected version."""
        check_size(check_key(key), value, self.budget)
        with self._lock:
            self._check(key, expected)
            # One count for all keys, or a key deleted and put again would meet its old versions.
            self._puts += 1
            version = Version(str(self._puts))
            self._values[key] = Versioned(bytes(value), version)
            return version

    def delete(self, key: str, expected: Version) -> None:
        """Remove this key, which has the expected version."""
        check_key(key)
        with self._lock:
            self._check(key, expected)
            del self._values[key]

    def list(self, prefix: str) -> dict[str, Version]:
        """All keys that start with this text, in order."""
        with self._lock:
            return {key: self._values[key].version for key in sorted(self._values) if key.startswith(prefix)}

    def _check(self, key: str, expected: Version | None) -> None:
        found = self._values.get(key)
        check_version(key, expected, None if found is None else found.version)
