"""Why: `holdfast logs` on a real cluster: apps and pods are looked up, logs are opened, errors become exit codes.

Reads with the rights of who asks, and writes nothing.
"""

import argparse
import functools
import sys
from contextlib import closing

from holdfast.errors import HoldfastError
from holdfast_cli.cluster.app import Reader, find_app
from holdfast_cli.cluster.client import Ask, ClusterClient, LogLines
from holdfast_cli.cluster.cluster_options import where
from holdfast_cli.cluster.cluster_reader import ClusterReader
from holdfast_cli.cluster.log_pods import Asked, Source, attempts_in
from holdfast_cli.cluster.log_reader import How
from holdfast_cli.cluster.logs import Follower, Look, Paper, Wanted, say, show
from holdfast_cli.cluster.logs_reading import Readings
from holdfast_cli.cluster.requests import PODS
from holdfast_operator.manifests.pods import APP_LABEL

_UNREADABLE = 1
_EVERY = 2.0
"""Seconds between two looks of -f."""


def look_at(options: argparse.Namespace) -> int:
    """Find the logs and print them."""
    place = where(options)
    wanted = Wanted(
        _asked(options),
        How(
            follow=options.follow,
            since_seconds=options.since,
            tail=options.tail,
            # Without moments a log that broke off could not be read on from its last line.
            stamped=options.timestamps or options.follow,
        ),
        place.command("holdfast", "status", options.app),
    )
    paper = Paper(sys.stdout, prefixed=wanted.asked.several, strips=options.follow and not options.timestamps)
    with closing(ClusterClient(place.target)) as client:
        look = functools.partial(_look, ClusterReader(client), place.namespace, options.app)
        with closing(Readings(functools.partial(_open, client, place.namespace))) as readings:
            try:
                if not options.follow:
                    return show(look(), wanted, readings, paper)
                Follower(look, wanted, readings, paper).follow(_EVERY)
            except HoldfastError as error:
                say(str(error))
                return _UNREADABLE
    return 0


def _asked(options: argparse.Namespace) -> Asked:
    if options.all or options.executors:
        return Asked(driver=options.all, executors=None, attempt=options.attempt, previous=options.previous)
    executors = frozenset(options.executor or ())
    return Asked(driver=not executors, executors=executors, attempt=options.attempt, previous=options.previous)


def _look(reader: Reader, namespace: str, name: str) -> Look:
    app = find_app(reader, namespace, name)
    return Look(app, attempts_in(reader.find(PODS, namespace, {"labelSelector": f"{APP_LABEL}={name}"})))


def _open(client: ClusterClient, namespace: str, source: Source, how: How) -> LogLines | None:
    ask = Ask("get", PODS, namespace, source.pod.name, "log", how.query(source.container))
    return client.lines(ask, follow=how.follow)
