"""Why: pydantic's JSON schema as the API server wants it: structural, without references, unions, titles or defaults.

Defaults live in the model alone, so that an object reads as its author wrote it; descriptions say them. Must not know
any particular field, and refuses a word of JSON schema it has never met rather than dropping it.
"""

from typing import Any

from pydantic import BaseModel

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


def _converted(node: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    node = _resolved(node, defs)
    out: dict[str, Any] = {word: node[word] for word in _KEPT if word in node}
    for word in node:
        if word == "properties":
            out[word] = {name: _converted(child, defs) for name, child in node[word].items()}
        elif word == "items":
            out |= _of_list(node, defs)
        elif word == "const":
            out["enum"] = [node[word]]
        elif word == "additionalProperties":
            out |= _of_map(node, defs)
        elif word == "patternProperties":
            out |= _of_keyed_map(node, defs)
        elif word not in _KEPT + _DROPPED:
            message = f"structural() does not know the word {word} of JSON schema"
            raise ValueError(message)
    if "description" in out:
        out["description"] = " ".join(out["description"].split())
    if out.get("properties") == {}:
        del out["properties"]
    return out


def _resolved(node: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """The node with its reference, or the one thing it is besides null, put in its place."""
    if "anyOf" in node:
        (only,) = (choice for choice in node["anyOf"] if choice != {"type": "null"})
        rest = {word: value for word, value in node.items() if word != "anyOf"}
        return _resolved(only | rest, defs)
    if "$ref" in node:
        target = defs[node["$ref"].removeprefix("#/$defs/")]
        rest = {word: value for word, value in node.items() if word != "$ref"}
        return _resolved(target | rest, defs)
    return node


def _of_list(node: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    items = _converted(node["items"], defs)
    named = "name" in items.get("properties", {})
    # Lists of named objects merge by name; any other list is replaced as a whole, which needs no word.
    merge = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]} if named else {}
    return merge | {"items": items}


def _of_map(node: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    values = node["additionalProperties"]
    # Closed objects are the rule for the API server; of open ones it is told by x-kubernetes-preserve-unknown-fields.
    return {"additionalProperties": _converted(values, defs)} if isinstance(values, dict) else {}


def _of_keyed_map(node: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    ((pattern, values),) = node["patternProperties"].items()
    longest = node["propertyNames"]["maxLength"]
    # A structural schema can't say what keys look like.
    rule = {
        "rule": f"self.all(key, key.size() <= {longest} && key.matches('{pattern}'))",
        "message": f"keys match {pattern} and have at most {longest} characters",
    }
    return {"additionalProperties": _converted(values, defs), "x-kubernetes-validations": [rule]}
