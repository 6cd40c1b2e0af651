"""The versions of watched objects: which events are older than what is known, and which objects a list ends.

A watch tells what was deleted only while its connection lives. After a list, what is not in it is gone, unless it is
newer than the list. Events reach their handlers in no fixed order, so one that is older than the list must not bring an
object back. Must not hold the objects themselves.
"""

from dataclasses import dataclass, field

from holdfast_operator.decide.facts import AppKey

Place = tuple[str, str]
"""Namespace (empty: none) and name of an object."""


@dataclass(frozen=True, slots=True)
class CompleteList:
    """The places of all objects of one kind, at one version of the cluster."""

    namespace: str | None
    """None: of all namespaces."""
    version: int
    places: frozenset[Place]
    app: AppKey | None = None
    """None: the objects of all apps."""


@dataclass(frozen=True, slots=True)
class _Known:
    version: int
    app: AppKey | None


@dataclass(slots=True)
class KnownVersions:
    """The versions of the known objects of one kind."""

    _known: dict[Place, _Known] = field(default_factory=dict)
    _lists: dict[str | None, CompleteList] = field(default_factory=dict)
    """Namespace -> its last list."""

    def __contains__(self, place: Place) -> bool:
        return place in self._known

    def app_of(self, place: Place) -> AppKey | None:
        """Return the app of a known object."""
        known = self._known.get(place)
        return None if known is None else known.app

    def update(self, place: Place, version: int, app: AppKey | None) -> bool:
        """Record an object that exists; return False if this version of it is outdated."""
        known = self._known.get(place)
        if (known is not None and version < known.version) or self._ended(place, version):
            return False
        self._known[place] = _Known(version, app)
        return True

    def end(self, place: Place, version: int) -> bool:
        """Forget a deleted object; return False if a newer one has its name."""
        known = self._known.get(place)
        if known is not None and version < known.version:
            return False
        self._known.pop(place, None)
        return True

    def missing(self, listed: CompleteList) -> dict[Place, AppKey | None]:
        """Forget the objects that this list would have if they still existed; return them with their apps."""
        app_by_place = {
            place: known.app
            for place, known in self._known.items()
            if listed.namespace in (None, place[0])
            and listed.app in (None, known.app)
            and known.version <= listed.version
            and place not in listed.places
        }
        for place in app_by_place:
            del self._known[place]
        if listed.app is None:
            self._lists[listed.namespace] = listed
        return app_by_place

    def _ended(self, place: Place, version: int) -> bool:
        """Return whether the last list, which is newer than this version, did not have the object."""
        listed = self._lists.get(None) or self._lists.get(place[0])
        return listed is not None and version <= listed.version and place not in listed.places


def version_number(text: str) -> int:
    """Return a resourceVersion as a number. Versions of a kind rise; comparing them is official since 1.35."""
    return int(text) if text.isdigit() else 0
