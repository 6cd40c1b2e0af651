"""Why: `helm test` asks whether this release works: the operator answers, and the API server knows apps.

`python check.py URL NAMESPACE DIRECTORY`: URL of the operator's health, DIRECTORY of the pod's token. Runs in the
operator's image with the standard library alone. Must not leave anything behind: apps are only tried.
"""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request

PATIENCE, PAUSE = 60.0, 1.0
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


def tried(namespace: str, directory: str, app: dict) -> int:
    """What the API server would say to this app."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    with open(f"{directory}/token", encoding="utf-8") as file:
        token = file.read().strip()
    request = urllib.request.Request(
        f"https://{host}:{port}/apis/holdfast.dev/v1alpha1/namespaces/{namespace}/streamapps?dryRun=All",
        json.dumps(app).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    try:
        context = ssl.create_default_context(cafile=f"{directory}/ca.crt")
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        print(error.read().decode(errors="replace")[:500], flush=True)
        return error.code


def main(url: str, namespace: str, directory: str) -> None:
    """All checks; the first that fails ends it."""
    answers(url)
    for what, app, wanted in (("an app", APP, 201), ("an app without streams", STRANGE, 422)):
        status = tried(namespace, directory, app)
        print(f"{what}: {status}", flush=True)
        if status != wanted:
            sys.exit(f"{what} should be answered with {wanted}: is the CRD of this release's version?")
    print("Holdfast is ready.")


if __name__ == "__main__":
    main(*sys.argv[1:])
