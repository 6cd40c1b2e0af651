"""An app as Python source: the calls that declare what a YAML file does, a line each, in its order.

For whoever goes on in Python, and for the proof that calls can say all that files can. Steps that read a later one
are written behind it. Must not judge the app.
"""

import builtins
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from holdfast.spec.app import AppSpec
from holdfast.spec.fields import SpecModel, name_in_files, object_of
from holdfast.spec.steps import Step
from holdfast.spec.streams import GeneratorSystem, KafkaSystem, Stream, Table
from holdfast.spec.verbs import VERBS, Verb
from holdfast_api.spec_names import POSITIONAL, file_names, verb_model

_WIDTH = 100
_LISTS = ("systems", "streams", "tables", "steps")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TAKEN = {"app", "App", *dir(builtins), *(model.__name__ for model in SpecModel.__subclasses__())}
"""Names that the source uses for other things."""


def python_source(tree: Mapping[str, Any]) -> str:
    """Return the source of a valid app, whose tree this is."""
    spec = {name: value for name, value in tree["spec"].items() if value is not None}
    writer = _Writer()
    settings = {name: value for name, value in spec.items() if name not in _LISTS}
    arguments = [_written(tree["metadata"]["name"]), *writer.options(AppSpec, settings)]
    lines = [_call("app = App", arguments)]
    for kind in _LISTS:
        declared = [writer.line(kind, item) for item in _in_order(kind, spec.get(kind) or [])]
        lines += ["", *declared] if declared else []
    imports = ", ".join(sorted({"App", *writer.models}))
    return "\n".join([f"from holdfast_api import {imports}", "", *lines]) + "\n"


def _in_order(kind: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return steps so that each stands behind those that it reads; all else as it is."""
    waiting, ordered = list(items), list[dict[str, Any]]()
    while kind == "steps" and waiting:
        open_names = {item["name"] for item in waiting}
        ready = next((item for item in waiting if not open_names & set(item["from"])), None)
        if ready is None:
            break
        ordered.append(ready)
        waiting.remove(ready)
    return [*ordered, *waiting]


def _call(head: str, arguments: Sequence[str]) -> str:
    """Return a call on one line, or with an argument a line where it is long."""
    line = f"{head}({', '.join(arguments)})"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{head}(", *(f"    {argument}," for argument in arguments), ")"])


def _written(value: object) -> str:
    """Return a value as source, its texts in double quotes."""
    if isinstance(value, str):
        plain = repr(value)
        return f'"{plain[1:-1]}"' if plain[0] == "'" and '"' not in plain and "\\'" not in plain else plain
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_written(key)}: {_written(item)}" for key, item in value.items()) + "}"
    return repr(value)


class _Writer:
    """Writes calls, and remembers which variables hold what is declared."""

    def __init__(self) -> None:
        self._variables: dict[tuple[str, str], str] = {}
        self.models = set[str]()
        """Classes that the source needs."""

    def line(self, kind: str, item: Mapping[str, Any]) -> str:
        """Return the call that declares an item, with its variable."""
        item = {name: value for name, value in item.items() if value is not None}
        match kind:
            case "systems":
                call, arguments = self._system(item)
            case "streams":
                system = self._variables["systems", item["system"]]
                call, arguments = f"{system}.stream", self._arguments(item, Stream, {"name", "system"})
            case "tables":
                call, arguments = "app.table", self._arguments(item, Table, {"name"})
            case _:
                call, arguments = self._step(item)
        return _call(f"{self._variable(kind, item['name'])} = {call}", arguments)

    def _arguments(self, item: Mapping[str, Any], model: type[BaseModel], left_out: set[str]) -> list[str]:
        fields = {name: value for name, value in item.items() if name not in left_out}
        return [_written(item["name"]), *self.options(model, fields)]

    def _system(self, item: Mapping[str, Any]) -> tuple[str, list[str]]:
        kind = next(name for name in item if name != "name")
        settings = dict(item[kind])
        first = [_written(item["name"])]
        if kind == "kafka":
            first += [_written(settings.pop("bootstrapServers")), *self.options(KafkaSystem, settings)]
        elif kind == "generator":
            first += [_written(settings.pop("function")), *self.options(GeneratorSystem, settings)]
        return f"app.{kind}", first

    def _step(self, item: Mapping[str, Any]) -> tuple[str, list[str]]:
        verb: Verb = next(verb for verb in VERBS if verb in item)
        left, *more = (self._source(name) for name in item["from"])
        settings, model = item[verb], verb_model(verb)
        if model is None:
            of_kind = {"to": "streams", "toTable": "tables"}.get(verb, "")
            texts = settings if isinstance(settings, list) else [settings]
            first, options = [self._variables.get((of_kind, text), _written(text)) for text in texts], list[str]()
        else:
            settings, first = dict(settings), more
            if verb in POSITIONAL:
                name = settings.pop(POSITIONAL[verb])
                first = [self._variables.get(("tables", name), _written(name)) if verb == "lookup" else _written(name)]
            options = self.options(model, settings)
        beside = {name: value for name, value in item.items() if name not in ("name", "from", verb)}
        call = f"{left}.{'to_table' if verb == 'toTable' else verb}"
        return call, [*first, f"name={_written(item['name'])}", *options, *self.options(Step, beside)]

    def _source(self, name: str) -> str:
        return self._variables.get(("steps", name)) or self._variables["streams", name]

    def options(self, model: type[BaseModel], fields: Mapping[str, Any]) -> list[str]:
        """Return fields as arguments with names."""
        names = {in_file: name for name, in_file in file_names(model).items()}
        nested = {name_in_files(attribute, field): object_of(field) for attribute, field in model.model_fields.items()}
        return [
            f"{names[name]}={self._value(value, nested[name])}" for name, value in fields.items() if value is not None
        ]

    def _value(self, value: Any, model: type[BaseModel] | None) -> str:
        if model is None or not isinstance(value, dict):
            return _written(value)
        self.models.add(model.__name__)
        return f"{model.__name__}({', '.join(self._nested(value, model))})"

    def _nested(self, value: Mapping[str, Any], model: type[BaseModel]) -> Iterator[str]:
        for attribute, field in model.model_fields.items():
            item = value.get(name_in_files(attribute, field))
            if item is not None:
                # A model is built by itself, with the names of its attributes.
                yield f"{attribute}={self._value(item, object_of(field))}"

    def _variable(self, kind: str, name: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        variable = plain if _PLAIN.fullmatch(plain) and not keyword.iskeyword(plain) else f"{kind}_{plain}"
        while variable in self._variables.values() or variable in _TAKEN:
            variable += "_"
        self._variables[kind, name] = variable
        return variable
