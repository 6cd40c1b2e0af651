"""Looks at the cluster for the page: what each address of it answers, read at most once in a while.

Several tabs that ask for the same get one look. The next begins after two seconds, or later if looks take long, so that
a page that is left open costs an API server little. A look that fails is an answer too, which says what to do; the next
look begins from nothing, so that the page goes on when the trouble is over. Must not write to the cluster.
"""

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock

from holdfast.api_answers import NotAllowedError
from holdfast.errors import HoldfastError, code_of
from holdfast.placement.config_map_store import version_of
from holdfast.trees import Tree
from holdfast_cli.cluster.app import (
    AppList,
    AppUnknownError,
    Missing,
    OrMissing,
    app_of,
    app_tree,
    read_app,
    read_apps,
    tried,
)
from holdfast_cli.ui.app_parts import UiClient, log_end, pods_of, record_in, record_object
from holdfast_cli.ui.app_view import EVENTS, app_view
from holdfast_cli.ui.list_view import list_view
from holdfast_cli.ui.plan_view import plan_view

_FRESH, _SHARE = 1.9, 5.0
"""Seconds for which an answer is good: at least this, and so many times what the look took."""
_MOST_ANSWERS = 50
_OK, _MISSING, _FAILED = 200, 404, 503


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """What the page gets: JSON, and a tag that changes with it."""

    status: int
    body: bytes
    tag: str

    @classmethod
    def of(cls, status: int, tree: Tree) -> "PageAnswer":
        """Return the answer with this JSON."""
        body = json.dumps(tree, separators=(",", ":")).encode()
        return cls(status, body, f'"{sha256(body).hexdigest()[:24]}"')


@dataclass(slots=True)
class _LastAnswer:
    """The last answer at an address, and until when it is good."""

    lock: Lock = field(default_factory=Lock)
    answer: PageAnswer | None = None
    until: float = 0.0


@dataclass(frozen=True, slots=True)
class _DrawnPlan:
    """A plan, and the versions of what it was drawn from."""

    versions: tuple[str, ...]
    tree: Tree


class ClusterLooks:
    """All that the page asks; used by many threads."""

    def __init__(
        self, connect: Callable[[], UiClient], where: str, namespaces: tuple[str, ...], clock: Callable[[], float]
    ) -> None:
        """`where`: the context, for the page's head; `namespaces`: of the list, none: all; `clock`: in seconds."""
        self._connect, self._where, self._namespaces, self._clock = connect, where, namespaces, clock
        self._client: UiClient | None = None
        self._lock, self._drawing = Lock(), Lock()
        self._answers: OrderedDict[tuple[str, ...], _LastAnswer] = OrderedDict()
        self._plans: OrderedDict[tuple[str, str], _DrawnPlan] = OrderedDict()

    def apps(self) -> PageAnswer:
        """Return all apps."""
        return self._answer(("apps",), self._list)

    def app(self, namespace: str, name: str) -> PageAnswer:
        """Return one app without its plan."""

        def look(client: UiClient) -> Tree:
            detail = read_app(client, namespace, name, events=EVENTS)
            return app_view(detail, tried(lambda: pods_of(client, namespace, name)))

        return self._answer(("app", namespace, name), look)

    def plan(self, namespace: str, name: str) -> PageAnswer:
        """Return the drawing of an app's plan."""
        return self._answer(("plan", namespace, name), lambda client: self._plan(client, namespace, name))

    def log(self, namespace: str, name: str, pod: str) -> PageAnswer:
        """Return the end of the log of a pod of an app."""
        return self._answer(("log", namespace, name, pod), lambda client: log_end(client, namespace, name, pod))

    def _answer(self, address: tuple[str, ...], look: Callable[[UiClient], Tree]) -> PageAnswer:
        with self._lock:
            last = self._answers.setdefault(address, _LastAnswer())
            self._answers.move_to_end(address)
            while len(self._answers) > _MOST_ANSWERS:
                self._answers.popitem(last=False)
        with last.lock:
            begin = self._clock()
            if last.answer is None or begin >= last.until:
                last.answer = self._fresh(look)
                end = self._clock()
                last.until = end + max(_FRESH, _SHARE * (end - begin))
            return last.answer

    def _fresh(self, look: Callable[[UiClient], Tree]) -> PageAnswer:
        scope = {"where": self._where, "namespaces": self._namespaces}
        try:
            return PageAnswer.of(_OK, {**scope, **look(self._connected())})
        except HoldfastError as error:
            if code_of(error) == "CredentialsError":
                self._client = None  # whoever logs in again gets other credentials
            status = _MISSING if isinstance(error, AppUnknownError) else _FAILED
            return PageAnswer.of(status, {**scope, "error": code_of(error), "message": str(error)})

    def _connected(self) -> UiClient:
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _list(self, client: UiClient) -> Tree:
        """Return the apps of those namespaces that may be seen; raise if none may."""
        lists: list[AppList] = []
        refusals: list[NotAllowedError] = []
        for namespace in self._namespaces or (None,):
            try:
                lists.append(read_apps(client, namespace))
            except NotAllowedError as error:
                refusals.append(error)
        if not lists:
            raise refusals[0]
        apps = tuple(app for app_list in lists for app in app_list.apps)
        return list_view(AppList(apps), tuple(map(str, refusals)))

    def _plan(self, client: UiClient, namespace: str, name: str) -> Tree:
        """Return the drawing, made again only if what it is drawn from is another version."""
        tree = app_tree(client, namespace, name)
        record_tree = tried(lambda: record_object(client, app_of(tree)))
        versions = (str(tree["metadata"].get("uid")), str(app_of(tree).generation), _version(record_tree))
        with self._drawing:
            drawn = self._plans.get((namespace, name))
            if drawn is None or drawn.versions != versions:
                record = tried(lambda: record_in(app_of(tree), record_tree))
                drawn = self._plans[namespace, name] = _DrawnPlan(versions, plan_view(tree, record))
                while len(self._plans) > _MOST_ANSWERS:
                    self._plans.popitem(last=False)
            return drawn.tree


def _version(record_tree: OrMissing[Tree | None]) -> str:
    if isinstance(record_tree, Missing):
        return record_tree.why
    return "none" if record_tree is None else version_of(record_tree)
