"""The versions of watched objects: which events are older than what is known, and which objects a list ends.

A watch tells what was deleted only while its connection lives. After a list, what is not in it is gone, unless it is
newer than the list. Events reach their handlers in no fixed order, so one that is older than the list must not bring an
object back. Must not hold the objects themselves.
"""

from dataclasses import dataclass, field

from holdfast_operator.decide.facts import AppKey

NamespacedName = tuple[str, str]
"""Namespace (empty: none) and name of an object."""


@dataclass(frozen=True, slots=True)
class CompleteList:
    """The names of all objects of one kind, at one version of the cluster."""

    namespace: str | None
    """None: of all namespaces."""
    version: int
    names: frozenset[NamespacedName]
    app: AppKey | None = None
    """None: the objects of all apps."""


@dataclass(frozen=True, slots=True)
class _Known:
    version: int
    app: AppKey | None


@dataclass(slots=True)
class KnownVersions:
    """The versions of the known objects of one kind."""

    _known: dict[NamespacedName, _Known] = field(default_factory=dict)
    _lists: dict[str | None, CompleteList] = field(default_factory=dict)
    """Namespace -> its last list."""

    def __contains__(self, name: NamespacedName) -> bool:
        return name in self._known

    def app_of(self, name: NamespacedName) -> AppKey | None:
        """Return the app of a known object."""
        known = self._known.get(name)
        return None if known is None else known.app

    def update(self, name: NamespacedName, version: int, app: AppKey | None) -> bool:
        """Record an object that exists; return False if this version of it is outdated."""
        known = self._known.get(name)
        if (known is not None and version < known.version) or self._ended(name, version):
            return False
        self._known[name] = _Known(version, app)
        return True

    def end(self, name: NamespacedName, version: int) -> bool:
        """Forget a deleted object; return False if a newer one has its name."""
        known = self._known.get(name)
        if known is not None and version < known.version:
            return False
        self._known.pop(name, None)
        return True

    def missing(self, listed: CompleteList) -> dict[NamespacedName, AppKey | None]:
        """Forget the objects that this list would have if they still existed; return them with their apps."""
        app_by_name = {
            name: known.app
            for name, known in self._known.items()
            if listed.namespace in (None, name[0])
            and listed.app in (None, known.app)
            and known.version <= listed.version
            and name not in listed.names
        }
        for name in app_by_name:
            del self._known[name]
        if listed.app is None:
            self._lists[listed.namespace] = listed
        return app_by_name

    def _ended(self, name: NamespacedName, version: int) -> bool:
        """Return whether the last list, which is newer than this version, did not have the object."""
        listed = self._lists.get(None) or self._lists.get(name[0])
        return listed is not None and version <= listed.version and name not in listed.names


def version_number(text: str) -> int:
    """Return a resourceVersion as a number. Versions of a kind rise; comparing them is official since 1.35."""
    return int(text) if text.isdigit() else 0
