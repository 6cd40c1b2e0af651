"""Why: the CustomResourceDefinition of StreamApp, generated from the model, so that there is one schema.

Its rules need Kubernetes 1.33: they use comprehensions over two variables, which an API server knows since 1.32 and
allows in new definitions one version later. Must not write files.
"""

from typing import Any

from holdfast.spec.app import Status
from holdfast.spec.app_part import API_VERSION, KIND, Metadata, StreamApp
from holdfast.spec.node_rules_part import Path
from holdfast.spec.rules import RULES
from holdfast.spec.structural import structural
from holdfast.spec.transitions import transition_rules

PLURAL = "streamapps"
GROUP, VERSION = API_VERSION.split("/")
_CONDITION = '.status.conditions[?(@.type=="Ready")]'


def crd() -> dict[str, Any]:
    """The definition, as it is applied to a cluster."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["sapp"],
                "categories": ["all", "holdfast"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": _columns(),
                    "schema": {"openAPIV3Schema": _schema()},
                }
            ],
        },
    }


def _columns() -> list[dict[str, str]]:
    return [
        {"name": "Ready", "type": "string", "jsonPath": f"{_CONDITION}.status"},
        {"name": "Reason", "type": "string", "jsonPath": f"{_CONDITION}.reason"},
        {"name": "Tasks", "type": "integer", "jsonPath": ".status.tasks"},
        {"name": "Placed", "type": "string", "jsonPath": ".status.placed"},
        {"name": "Partitions", "type": "integer", "jsonPath": ".status.partitions"},
        {"name": "Restarts", "type": "integer", "jsonPath": ".status.restarts"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def _schema() -> dict[str, Any]:
    whole = structural(StreamApp)
    spec = whole["properties"]["spec"]
    _also_as_true(spec)
    for rule in RULES:
        if rule.cel is not None:
            _attach(spec, rule.at, rule.cel, rule.message)
    for transition in transition_rules():
        _attach(spec, (), transition.cel, transition.message)
    return {
        "type": "object",
        "description": whole["description"],
        "required": ["spec"],
        "properties": {
            # Kubernetes owns these three; it forbids schemas for them beyond the name's.
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": _listed_by_type(structural(Status)),
        },
        "x-kubernetes-validations": [_name_rule()],
    }


def _name_rule() -> dict[str, str]:
    name = structural(Metadata)["properties"]["name"]
    return {
        "rule": f"self.metadata.name.size() <= {name['maxLength']} && self.metadata.name.matches('{name['pattern']}')",
        "message": f"metadata.name is lower-case letters, digits and inner dashes, at most {name['maxLength']}",
    }


def _attach(spec: dict[str, Any], at: Path, cel: str, message: str) -> None:
    node = spec
    for part in at:
        node = node["items"] if part == "*" else node["properties"][part]
    node.setdefault("x-kubernetes-validations", []).append({"rule": cel, "message": message})


def _also_as_true(node: dict[str, Any]) -> None:
    """Let every field `on` be called `true`: YAML 1.1 makes that of an unquoted `on`, and so kubectl sends it."""
    fields = node.get("properties", {})
    for child in (*fields.values(), *filter(None, (node.get("items"),))):
        _also_as_true(child)
    if "on" in fields:
        fields["true"] = fields["on"] | {"description": "What kubectl makes of an unquoted `on`."}
        node["required"] = [name for name in node["required"] if name != "on"]


def _listed_by_type(status: dict[str, Any]) -> dict[str, Any]:
    conditions = status["properties"]["conditions"]
    conditions |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    return status
