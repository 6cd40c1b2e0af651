"""The draft of an app: what calls have declared so far, as the tree that a YAML file would hold, and where they stand.

A draft is judged as a whole, by the same code as a file, so a call only writes down. What only Python can get wrong
is refused at once: a step without a name of its own, an object of another app. Must not judge fields.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from pydantic import BaseModel

from holdfast.errors import UserActionError
from holdfast.spec.app import API_VERSION, KIND
from holdfast.spec.fields import SpecModel
from holdfast.spec.rule_checks import FieldPath
from holdfast_api.packed_functions import PackedFunctions
from holdfast_api.spec_names import fields_by_python_name, file_names, is_list

_PACKAGE = str(Path(__file__).parent)
Kind = Literal["systems", "streams", "tables", "steps"]


class AppDraftError(UserActionError):
    """A call that can't be written into a spec."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where a call stands: file, line and column, counted from 1 as in editors."""

    file: str
    line: int
    column: int

    @property
    def shown(self) -> str:
        """The line for people; a cell of a notebook has no name that says anything."""
        path = Path(self.file)
        return f"{path.name}:{self.line}:{self.column}" if path.is_file() else f"line {self.line}"

    @classmethod
    def of_call(cls, file: str | None = None) -> "SourceLine":
        """Return the line that called this package, in this file if it was on the way."""
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            frame = frame.f_back
        nearest = frame
        while frame is not None and file is not None and frame.f_code.co_filename != file:
            frame = frame.f_back
        frame = frame or nearest
        return cls("?", 1, 1) if frame is None else cls(frame.f_code.co_filename, frame.f_lineno, _column(frame))


def _column(frame: FrameType) -> int:
    position = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    line, column = (None, None) if position is None else (position[0], position[2])
    return column + 1 if column is not None and line == frame.f_lineno else 1


@dataclass(frozen=True, slots=True)
class Declared:
    """A system, stream, table or step of an app, by its name."""

    name: str
    draft: "AppDraft" = field(repr=False, compare=False)


@dataclass(slots=True)
class AppDraft:
    """What is declared of one app."""

    name: str
    file: str
    settings: dict[str, Any] = field(default_factory=dict)
    """Fields of the spec besides the lists."""
    lists: dict[Kind, list[dict[str, Any]]] = field(default_factory=dict)
    lines: dict[FieldPath, SourceLine] = field(default_factory=dict)
    """Path of what a call declared -> where the call stands."""
    functions: PackedFunctions = field(init=False)

    def __post_init__(self) -> None:
        self.functions = PackedFunctions(self.name, self.file)
        self.lines[()] = SourceLine.of_call(self.file)

    def add(self, kind: Kind, declaration: Mapping[str, Any]) -> None:
        """Write down what a call declares, in the order of the calls."""
        declarations = self.lists.setdefault(kind, [])
        self.lines["spec", kind, len(declarations)] = SourceLine.of_call(self.file)
        declarations.append(dict(declaration))

    def line_of(self, path: FieldPath) -> SourceLine:
        """Return where the field at this path was declared, or what holds it."""
        while path not in self.lines:
            path = path[:-1]
        return self.lines[path]

    def derived_name(self, *parts: str) -> str:
        """Return a name for a step under which nothing is kept, made of what it reads and does."""
        name = "-".join(parts)
        if any(step["name"] == name for step in self.lists.get("steps", ())):
            message = f"another step is called {name} already: give this one a name of its own, name=..."
            raise AppDraftError(message)
        return name

    def tree(self) -> dict[str, Any]:
        """Return the app as a file would have it."""
        settings = dict(self.settings)
        if self.functions.text:
            runtime = dict(settings.get("runtime") or {})
            runtime["code"] = {**runtime.get("code", {}), self.functions.module: self.functions.text}
            settings["runtime"] = runtime
        run = {"runId": settings.pop("runId")} if "runId" in settings else {}
        lists = {kind: self.lists[kind] for kind in ("systems", "streams", "tables", "steps") if kind in self.lists}
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": self.name},
            "spec": {**run, **lists, **settings},
        }

    def written_fields(self, model: type[BaseModel], options: Mapping[str, object]) -> dict[str, Any]:
        """Return options of a call as fields of a file. Names that the model does not have stay, and are refused."""
        names, fields = file_names(model), fields_by_python_name(model)
        written: dict[str, Any] = {}
        for name, option in options.items():
            if option is None:
                continue
            value = self.written(option)
            listed = name in fields and is_list(fields[name]) and not isinstance(value, list)
            written[names.get(name, name)] = [value] if listed else value
        return written

    def written(self, value: object) -> Any:
        """Return a value of Python as a file has it: objects by their names, functions by their paths."""
        if isinstance(value, SpecModel):
            return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
        if isinstance(value, Declared):
            return self.name_of(value)
        if isinstance(value, Mapping):
            return {key: self.written(item) for key, item in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            return [self.written(item) for item in value]
        return value

    def name_of(self, source: Declared | str) -> str:
        """Return the name of something of this app."""
        if isinstance(source, str):
            return source
        if source.draft is not self:
            message = f"{source.name} belongs to app {source.draft.name}, not to {self.name}: declare it in this app"
            raise AppDraftError(message)
        return source.name

    def path_of(self, function: Callable[..., Any] | str) -> str:
        """Return the path by which the app calls a function."""
        return function if isinstance(function, str) else self.functions.path_of(function)
