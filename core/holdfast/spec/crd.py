"""The CustomResourceDefinition of StreamApp, generated from the model as a structural schema with its CEL rules.

There is one schema: the model. Defaults live in the model alone, so that an object reads as its author wrote it;
descriptions say them. The rules need Kubernetes 1.33: they use comprehensions over two variables, which an API
server knows since 1.32 and allows in new definitions one version later. A word of JSON schema that was never met is
refused rather than dropped. Must not write files.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from holdfast.spec.app import API_VERSION, KIND, Metadata, Status, StreamApp
from holdfast.spec.cel import naming
from holdfast.spec.rule import Rule
from holdfast.spec.rule_checks import FieldPath
from holdfast.spec.rules import RULES
from holdfast.spec.transitions import cel_name, transition_rules
from holdfast.trees import Tree

PLURAL = "streamapps"
GROUP, VERSION = API_VERSION.split("/")
_RULES = "x-kubernetes-validations"
_SELF = re.compile(r"\bself\b")
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


def _columns() -> list[dict[str, Any]]:
    return [
        {"name": "Ready", "type": "string", "jsonPath": f"{_CONDITION}.status"},
        {"name": "Reason", "type": "string", "jsonPath": f"{_CONDITION}.reason"},
        {"name": "Tasks", "type": "integer", "jsonPath": ".status.tasks"},
        {"name": "Placed", "type": "string", "jsonPath": ".status.placed"},
        {"name": "Partitions", "type": "integer", "jsonPath": ".status.partitions"},
        {"name": "Restarts", "type": "integer", "jsonPath": ".status.restarts"},
        {"name": "Attempt", "type": "integer", "jsonPath": ".status.attempt", "priority": 1},
        {"name": "Message", "type": "string", "jsonPath": f"{_CONDITION}.message", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def _schema() -> dict[str, Any]:
    whole = structural(StreamApp)
    spec = whole["properties"]["spec"]
    for rule in RULES:
        if rule.cel is not None:
            _attach(spec, rule.at, rule.cel, rule.message, _naming(rule))
    for transition in transition_rules():
        _attach(spec, (), transition.cel, transition.message, transition.naming)
    for name, schema in spec["properties"].items():
        if "x-kubernetes-list-map-keys" in schema:
            _lift_rules(name, schema["items"])
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


def _naming(rule: Rule) -> str | None:
    """CEL for the sentence with the names of what breaks it: the API server's path has numbers only."""
    if rule.offenders:
        return naming(rule.message, rule.offenders)
    match rule.at:
        case (str(items), "*"):
            return _named(items, rule.message)
        case (*_, "env", "*"):
            return _named("variables", rule.message)
        case (*_, "tolerations", "*"):
            return f"'toleration of ' + (has(self.key) ? self.key : 'any key') + ': ' + {json.dumps(rule.message)}"
        case _:
            return None


def _named(items: str, sentence: str) -> str:
    return f"'{items.removesuffix('s')} ' + self.name + ': ' + {json.dumps(sentence)}"


def _attach(spec: dict[str, Any], path: FieldPath, cel: str, message: str, naming: str | None = None) -> None:
    schema = spec
    for part in path:
        schema = schema["items"] if part == "*" else schema["properties"][part]
    rule = {"rule": cel, "message": message} | ({} if naming is None else {"messageExpression": naming})
    schema.setdefault(_RULES, []).append(rule)


def _lift_rules(items: str, schema: Tree) -> None:
    """Move the rules inside an item of a named list up to the item, which alone knows its name."""
    lifted = [_lifted(items, path, rule) for path, rule in _rules_inside(schema, ())]
    schema[_RULES] = [*schema.get(_RULES, ()), *lifted]


def _rules_inside(schema: Tree, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Tree]]:
    """Take out the rules of the fields below this schema."""
    for name, child in schema.get("properties", {}).items():
        yield from (((*path, name), rule) for rule in child.pop(_RULES, ()))
        yield from _rules_inside(child, (*path, name))


def _lifted(items: str, path: tuple[str, ...], rule: Tree) -> Tree:
    """The rule of a field as a rule of its item. The error still points to the field."""
    fields = [".".join(("self", *map(cel_name, path[: n + 1]))) for n in range(len(path))]
    presence = " && ".join(f"has({field})" for field in fields)
    return {
        "rule": f"!({presence}) || ({re.sub(_SELF, fields[-1], rule['rule'])})",
        "message": rule["message"],
        "messageExpression": _named(items, rule["message"]),
        "fieldPath": f".{'.'.join(path)}",
    }


def _listed_by_type(status: dict[str, Any]) -> dict[str, Any]:
    conditions = status["properties"]["conditions"]
    conditions |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    return status


_KEPT = (
    "type", "format", "description", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems",
    "maxItems", "maxProperties", "x-kubernetes-validations", "x-kubernetes-preserve-unknown-fields", "required",
)  # fmt: skip
"""Words that are passed on, in the order in which they are written."""
_DROPPED = ("title", "default", "examples", "$defs", "propertyNames")


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """The structural schema of a model."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _converted(schema, schema.get("$defs", {}))


def _converted(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    schema = resolved(schema, defs)
    out: dict[str, Any] = {word: schema[word] for word in _KEPT if word in schema}
    for word in schema:
        if word == "properties":
            out[word] = {name: _converted(child, defs) for name, child in schema[word].items()}
        elif word == "items":
            out |= _of_list(schema, defs)
        elif word == "const":
            out["enum"] = [schema[word]]
        elif word == "additionalProperties":
            out |= _of_map(schema, defs)
        elif word == "patternProperties":
            out |= _of_keyed_map(schema, defs)
        elif word not in _KEPT + _DROPPED:
            message = f"structural() does not know the word {word} of JSON schema"
            raise ValueError(message)
    if "description" in out:
        out["description"] = " ".join(out["description"].split())
    if out.get("properties") == {}:
        del out["properties"]
    return out


def resolved(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """The schema with its reference, or the one thing it is besides null, put in its place."""
    if "anyOf" in schema:
        (only,) = (choice for choice in schema["anyOf"] if choice != {"type": "null"})
        rest = {word: value for word, value in schema.items() if word != "anyOf"}
        return resolved(only | rest, defs)
    if "$ref" in schema:
        target = defs[schema["$ref"].removeprefix("#/$defs/")]
        rest = {word: value for word, value in schema.items() if word != "$ref"}
        return resolved(target | rest, defs)
    return schema


def _of_list(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    items = _converted(schema["items"], defs)
    named = "name" in items.get("properties", {})
    # Lists of named objects merge by name; any other list is replaced as a whole, which needs no word.
    merge = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]} if named else {}
    return merge | {"items": items}


def _of_map(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    values = schema["additionalProperties"]
    # Closed objects are the rule for the API server; of open ones it is told by x-kubernetes-preserve-unknown-fields.
    return {"additionalProperties": _converted(values, defs)} if isinstance(values, dict) else {}


def _of_keyed_map(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    ((pattern, values),) = schema["patternProperties"].items()
    longest = schema["propertyNames"]["maxLength"]
    # A structural schema can't say what keys look like.
    rule = {
        "rule": f"self.all(key, key.size() <= {longest} && key.matches('{pattern}'))",
        "message": f"keys match {pattern} and have at most {longest} characters",
    }
    return {"additionalProperties": _converted(values, defs), "x-kubernetes-validations": [rule]}
