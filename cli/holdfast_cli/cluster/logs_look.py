"""Why: `holdfast logs` on a real cluster: apps and pods are looked up, logs are opened, errors become exit codes.

Reads with the rights of who asks, and writes nothing.
"""

import argparse
import functools
import sys
from contextlib import closing

from holdfast.errors import HoldfastError
from holdfast_cli.cluster.app import ObjectReader, find_app
from holdfast_cli.cluster.client import ApiRequest, ClusterClient, LogStream
from holdfast_cli.cluster.cluster_options import cluster_place
from holdfast_cli.cluster.cluster_reader import ClusterReader
from holdfast_cli.cluster.log_pods import LogSelection, PodLog, attempts_in
from holdfast_cli.cluster.log_reader import LogQuery
from holdfast_cli.cluster.logs import AppPods, LogFollower, LogPrinter, LogRequest, say, show_once
from holdfast_cli.cluster.logs_reading import LogReaders
from holdfast_cli.cluster.requests import PODS
from holdfast_operator.manifests.pods import APP_LABEL

_FAILED = 1
_EVERY = 2.0
"""Seconds between two looks of -f."""


def show_logs(options: argparse.Namespace) -> int:
    """Find the logs and print them."""
    place = cluster_place(options)
    wanted = LogRequest(
        _asked(options),
        LogQuery(
            follow=options.follow,
            since_seconds=options.since,
            tail=options.tail,
            # Without moments a log that broke off could not be read on from its last line.
            stamped=options.timestamps or options.follow,
        ),
        place.command("holdfast", "status", options.app),
    )
    paper = LogPrinter(sys.stdout, prefixed=wanted.asked.several, strips=options.follow and not options.timestamps)
    with closing(ClusterClient(place.target)) as client:
        look = functools.partial(_look, ClusterReader(client), place.namespace, options.app)
        with closing(LogReaders(functools.partial(_open, client, place.namespace))) as readings:
            try:
                if not options.follow:
                    return show_once(look(), wanted, readings, paper)
                LogFollower(look, wanted, readings, paper).follow(_EVERY)
            except HoldfastError as error:
                say(str(error))
                return _FAILED
    return 0


def _asked(options: argparse.Namespace) -> LogSelection:
    if options.all or options.executors:
        return LogSelection(driver=options.all, executors=None, attempt=options.attempt, previous=options.previous)
    executors = frozenset(options.executor or ())
    return LogSelection(driver=not executors, executors=executors, attempt=options.attempt, previous=options.previous)


def _look(reader: ObjectReader, namespace: str, name: str) -> AppPods:
    app = find_app(reader, namespace, name)
    return AppPods(app, attempts_in(reader.find(PODS, namespace, {"labelSelector": f"{APP_LABEL}={name}"})))


def _open(client: ClusterClient, namespace: str, source: PodLog, how: LogQuery) -> LogStream | None:
    ask = ApiRequest("get", PODS, namespace, source.pod.name, "log", how.query(source.container))
    return client.lines(ask, follow=how.follow)
