"""The implementation of `holdfast status`: reads apps from a cluster once or repeatedly, and prints them.

Reads with the user's rights and writes nothing.
"""

import argparse
import functools
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import NoReturn

from rich.console import Console

from holdfast_cli.cluster.app import AppDetail, AppList, ObjectReader, read_app, read_apps
from holdfast_cli.cluster.client import ClusterClient, ClusterReader
from holdfast_cli.cluster.status_view import app_json, list_json, print_app, print_apps
from holdfast_cli.cluster.target import find_target, valid_namespace
from holdfast_cli.output.live import ChangesView, LiveView, WatchView, watch
from holdfast_cli.output.screen import live_screen, screen

_NOT_READY = 1
_EVERY = 2.0
"""Seconds between two looks with --watch."""
StatusContent = AppDetail | AppList


def show_status(options: argparse.Namespace) -> int:
    """Read and print; return the exit code, which says whether the app is ready."""
    target = find_target(options.kubeconfig, options.context, os.environ)
    namespace = None if options.all_namespaces else options.namespace or target.namespace
    if namespace is not None:
        valid_namespace(namespace)
    with closing(ClusterClient(target)) as client:
        look = functools.partial(_look, ClusterReader(client), namespace, options.app)
        if options.watch:
            _watch(options, namespace, look)
        found = look()
    _draw(options, namespace, screen(options.color), found)
    return 0 if isinstance(found, AppList) or found.app.verdict.ready else _NOT_READY


def _look(reader: ObjectReader, namespace: str | None, name: str | None) -> StatusContent:
    if name is None or namespace is None:
        return read_apps(reader, namespace)
    return read_app(reader, namespace, name)


def _watch(options: argparse.Namespace, namespace: str | None, look: Callable[[], StatusContent]) -> NoReturn:
    """Look and print until Ctrl-C."""
    draw = functools.partial(_draw, options, namespace)
    with ExitStack() as opened:
        view: WatchView[StatusContent] = ChangesView(functools.partial(draw, screen(options.color)))
        live = live_screen(options.color)
        if options.output == "text" and sys.stdout.isatty() and not live.is_dumb_terminal:
            view = opened.enter_context(LiveView(live, draw))
        watch(look, view, functools.partial(time.sleep, _EVERY))


def _draw(options: argparse.Namespace, namespace: str | None, console: Console, found: StatusContent) -> None:
    if options.output == "json":
        tree = list_json(found) if isinstance(found, AppList) else app_json(found)
        sys.stdout.write(json.dumps(tree, indent=None if options.watch else 1, ensure_ascii=False) + "\n")
        return
    now = time.time_ns() // 1_000_000
    if isinstance(found, AppList):
        print_apps(console, found, now, namespace=namespace)
    else:
        print_app(console, found, now, all_tasks=options.tasks)
