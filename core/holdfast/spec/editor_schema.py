"""The JSON schema of StreamApp files for editors, which complete fields, show what they mean and mark what is wrong.

Made of the same model as the CustomResourceDefinition, in draft 7, which editors know best. Each description ends with
what changing the field costs. It takes whatever `holdfast plan` takes but for an empty field (`topic:`), which means
"not given" to a plan and an unfinished line to who is typing. It can't say all that a plan checks: columns, names and
keys are left to the plan. Must not write files.
"""

from typing import Any

from pydantic import BaseModel

from holdfast.spec.app import StreamApp
from holdfast.spec.crd import resolved
from holdfast.spec.fields import change_of, items_of_list, name_in_files, object_of
from holdfast.spec.verbs import VERBS

_DRAFT = "http://json-schema.org/draft-07/schema#"
_SYSTEMS = ("kafka", "log", "generator")
_UNSHOWN = ("title", "$defs", "default")
"""Words for programs: titles are class names, and an editor would write defaults into the file."""


def editor_schema() -> dict[str, Any]:
    """Return the schema of a file."""
    whole = StreamApp.model_json_schema(by_alias=True, mode="validation")
    schema = _inlined(whole, whole["$defs"])
    _add_costs(schema, StreamApp)
    schema["properties"]["status"] = {"type": "object", "description": "What the operator says of the app; not read."}
    spec = schema["properties"]["spec"]["properties"]
    spec["steps"]["items"]["oneOf"] = _exactly_one(tuple(VERBS))
    spec["systems"]["items"]["oneOf"] = _exactly_one(_SYSTEMS)
    return {"$schema": _DRAFT, "title": "StreamApp", **schema}


def _inlined(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """Put references in their place: draft 7 ignores what stands beside one, and that is the field's description."""
    schema = resolved(schema, defs)
    out: dict[str, Any] = {}
    for word, value in schema.items():
        if word in _UNSHOWN or word.startswith("x-"):
            continue
        match word:
            case "properties" | "patternProperties":
                out[word] = {name: _inlined(child, defs) for name, child in value.items()}
            case "items" | "propertyNames":
                out[word] = _inlined(value, defs)
            case "additionalProperties":
                out[word] = _inlined(value, defs) if isinstance(value, dict) else value
            case "description":
                out[word] = " ".join(value.split())
            case _:
                out[word] = value
    if "patternProperties" in out:
        out["additionalProperties"] = False
    return out


def _add_costs(schema: dict[str, Any], model: type[BaseModel]) -> None:
    for attribute, field in model.model_fields.items():
        child = schema["properties"][name_in_files(attribute, field)]
        cost = change_of(field)
        child["description"] = f"{child.get('description', '')} Changing it: {cost.label}.".strip()
        if nested := object_of(field):
            _add_costs(child, nested)
        elif item := items_of_list(field):
            _add_costs(child["items"], item)


def _exactly_one(names: tuple[str, ...]) -> list[dict[str, list[str]]]:
    return [{"required": [name]} for name in names]
