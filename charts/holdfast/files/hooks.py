"""What a release asks before Helm goes on: whether it works (`helm test`), whether no app needs it (`helm uninstall`).

`python hooks.py test DIRECTORY URL NAMESPACE`: URL of the operator's health, DIRECTORY of the pod's token.
`python hooks.py uninstall DIRECTORY BACK NAMESPACE...`: BACK is the command that Helm needs before the release can be
upgraded again; no NAMESPACE stands for all. Runs in the operator's image with the standard library alone. Must not leave anything behind, nor change anything: apps are only tried.
"""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator

PATIENCE, PAUSE = 60.0, 1.0
PAGE, NAMED = 10, 5
STOPPED = ("Suspended", "Completed")
"""Reasons of `Ready` with which an app has no pods."""
APP = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "helm-test"},
    "spec": {
        "systems": [{"name": "events", "kafka": {"bootstrapServers": "kafka:9092"}}],
        "streams": [
            {"name": "in", "system": "events", "key": ["k"], "schema": "k STRING"},
            {"name": "out", "system": "events", "key": ["k"]},
        ],
        "steps": [{"name": "written", "from": ["in"], "to": "out"}],
        "runtime": {"checkpoint": {"location": "s3a://bucket/helm-test"}},
    },
}
STRANGE = {**APP, "spec": {**APP["spec"], "streams": []}}


def answers(url: str) -> None:
    """Wait until the operator says that it is well."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                print(f"{url}: {answer.status}", flush=True)
                return
        except OSError as error:
            if time.monotonic() > until:
                sys.exit(f"{url}: {error}; see the log of the operator's pod")
            time.sleep(PAUSE)


def asked(directory: str, method: str, path: str, body: dict | None = None) -> tuple[int, dict]:
    """Status and object of the API server's answer."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    with open(f"{directory}/token", encoding="utf-8") as file:
        token = file.read().strip()
    request = urllib.request.Request(
        f"https://{host}:{port}/apis/holdfast.dev/v1alpha1/{path}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        method=method,
    )
    try:
        context = ssl.create_default_context(cafile=f"{directory}/ca.crt")
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        print(error.read().decode(errors="replace")[:500], flush=True)
        return error.code, {}


def test(directory: str, url: str, namespace: str) -> None:
    """All checks; the first that fails ends it."""
    answers(url)
    for what, app, wanted in (("an app", APP, 201), ("an app without streams", STRANGE, 422)):
        status, _ = asked(directory, "POST", f"namespaces/{namespace}/streamapps?dryRun=All", app)
        print(f"{what}: {status}", flush=True)
        if status != wanted:
            sys.exit(f"{what} should be answered with {wanted}: is the CRD of this release's version?")
    print("Holdfast is ready.")


def uninstall(directory: str, back: str, *namespaces: str) -> None:
    """Refuse while an app has not stopped: nobody would start it again, nor take its finalizer off."""
    paths = [f"namespaces/{namespace}/streamapps" for namespace in namespaces] or ["streamapps"]
    running = [name for path in paths for name in unstopped(directory, path)]
    if running:
        more = f" and {len(running) - NAMED} more" if len(running) > NAMED else ""
        sys.exit(
            f"not stopped: {', '.join(running[:NAMED])}{more}. Suspend these apps (holdfast drain) or delete them, "
            "then uninstall again; with --no-hooks they run on, and nobody starts them again. "
            f"To keep the release instead, Helm wants: {back}"
        )


def unstopped(directory: str, path: str) -> Iterator[str]:
    """Apps in pages, as one may have a megabyte. Without a CRD there are none."""
    page = ""
    while True:
        status, found = asked(directory, "GET", f"{path}?limit={PAGE}&continue={urllib.parse.quote(page)}")
        if status not in (200, 404):
            sys.exit(f"{path} can't be listed ({status}), so whether apps run is not known")
        for app in found.get("items", ()):
            if not stopped(app):
                yield f"{app['metadata']['namespace']}/{app['metadata']['name']}"
        page = found.get("metadata", {}).get("continue", "")
        if not page:
            return


def stopped(app: dict) -> bool:
    """Whether the operator has said so of the app as it is now."""
    conditions = app.get("status", {}).get("conditions", ())
    ready = next((condition for condition in conditions if condition["type"] == "Ready"), {})
    current = ready.get("observedGeneration") == app["metadata"]["generation"]
    return current and ready["reason"] in STOPPED and "deletionTimestamp" not in app["metadata"]


if __name__ == "__main__":
    {"test": test, "uninstall": uninstall}[sys.argv[1]](*sys.argv[2:])
