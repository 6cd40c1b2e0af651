"""The functions of an app as paths, `module:function`; those that no module has are packed into one of the app.

A function of a module is named. One that stands in the file of the app itself, in a notebook or at a prompt can't be
imported where the app runs, so its text goes into `runtime.code` with all that it uses: modules, functions of modules,
constants, and other such functions. What can't be packed without guessing is refused with the cure. Must not run
anything of the user's.
"""

import __future__

import ast
import inspect
import re
import symtable
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from holdfast.errors import UserActionError

_CURE = "put it into a module of its own beside the app's file and import it from there"
_MOST_CONSTANT = 10_000


class FunctionUnpackableError(UserActionError):
    """A function that has no path and can't be given one."""


class PackedFunctions:
    """The functions that an app calls."""

    def __init__(self, app: str, file: str) -> None:
        self.module = f"{re.sub('[^a-z0-9_]', '_', app.lower())}_functions"
        """The module that holds what is packed."""
        self._file = file
        self._imports = set[str]()
        self._constants: dict[str, str] = {}
        self._functions: dict[str, FunctionType] = {}
        self._sources: dict[str, str] = {}

    @property
    def text(self) -> str:
        """The text of that module; empty if nothing is packed."""
        if not self._sources:
            return ""
        future = ["from __future__ import annotations\n"] if any(map(_is_lazy, self._functions.values())) else []
        heads = [*sorted(self._imports), *(f"{name} = {text}" for name, text in sorted(self._constants.items()))]
        head = ["\n".join(heads) + "\n"] if heads else []
        return "\n".join([*future, *head, "\n\n".join(self._sources.values())])

    def path_of(self, function: Callable[..., Any]) -> str:
        """Return the path of a function; pack it if it has none."""
        if not isinstance(function, FunctionType):
            message = f"{function!r} is not a function that a name leads to: write one with def"
            raise FunctionUnpackableError(message)
        if function.__name__ == "<lambda>":
            message = "a lambda has no name by which an app could call it: write a function with def"
            raise FunctionUnpackableError(message)
        if self._is_of_module(function):
            return f"{function.__module__}:{function.__qualname__}"
        self._pack(function)
        return f"{self.module}:{function.__name__}"

    def _is_of_module(self, function: FunctionType) -> bool:
        """Return whether an import leads to it, other than of the app's file, which would build the app again."""
        if function.__module__ == "__main__" or function.__code__.co_filename == self._file:
            return False
        return getattr(sys.modules.get(function.__module__), function.__qualname__, None) is function

    def _leads_to(self, module: str, value: object) -> bool:
        """Return whether an import from this module leads to a value."""
        imported, name = sys.modules.get(module), getattr(value, "__qualname__", "")
        if module == "__main__" or getattr(imported, "__file__", "") == self._file:
            return False
        return getattr(imported, name, None) is value

    def _pack(self, function: FunctionType) -> None:
        name = function.__name__
        if self._functions.get(name) is function:
            return
        definition = _definition(function)
        if name in self._sources and self._sources[name] != definition:
            message = f"two functions are called {name}: give one another name"
            raise FunctionUnpackableError(message)
        self._functions[name] = function
        for used in _names(definition):
            if used != name and used in function.__globals__:
                self._take(function, used, function.__globals__[used])
        # Last, so that what it uses stands above it.
        self._sources[name] = definition

    def _take(self, function: FunctionType, name: str, value: object) -> None:
        module = getattr(value, "__module__", None)
        if isinstance(value, ModuleType):
            self._imports.add(f"import {value.__name__}" + ("" if name == value.__name__ else f" as {name}"))
            self._imports |= {f"import {submodule}" for submodule in _submodules(function, name, value)}
        elif isinstance(value, FunctionType) and not self._is_of_module(value) and value.__name__ == name:
            self._pack(value)
        elif (text := _literal(value)) is not None:
            if self._constants.setdefault(name, text) != text:
                message = f"{name} has changed since another function that uses it was packed: {_CURE}"
                raise FunctionUnpackableError(message)
        elif isinstance(module, str) and self._leads_to(module, value):
            qualified = getattr(value, "__qualname__", name)
            self._imports.add(f"from {module} import {qualified}" + ("" if name == qualified else f" as {name}"))
        else:
            message = (
                f"function {function.__name__} uses {name}, a {type(value).__name__} that its text alone can't "
                f"give it: {_CURE}, with {name}"
            )
            raise FunctionUnpackableError(message)


def _is_lazy(function: FunctionType) -> bool:
    return bool(function.__code__.co_flags & __future__.annotations.compiler_flag)


def _submodules(function: FunctionType, name: str, module: ModuleType) -> Iterator[str]:
    """Yield modules inside a module that a function uses by way of it, which an import of that alone may not load."""
    for node in ast.walk(ast.parse(_definition(function))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            submodule = f"{module.__name__}.{node.attr}"
            if submodule in sys.modules:
                yield submodule


def _definition(function: FunctionType) -> str:
    """Return the text of a function that needs nothing but names of its module."""
    name = function.__name__
    if function.__closure__ or function.__qualname__ != name:
        message = f"function {name} is defined inside {function.__qualname__.rpartition('.')[0] or 'another'}: {_CURE}"
        raise FunctionUnpackableError(message)
    try:
        text = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(text).body[0]
    except (OSError, TypeError, SyntaxError, IndexError) as error:
        message = f"the text of function {name} can't be read ({error}): {_CURE}"
        raise FunctionUnpackableError(message) from error
    if not isinstance(tree, ast.FunctionDef) or tree.name != name or tree.decorator_list:
        message = f"function {name} is not a plain def, without decorators: {_CURE}"
        raise FunctionUnpackableError(message)
    return text if text.endswith("\n") else f"{text}\n"


def _names(definition: str) -> Iterator[str]:
    """Yield the names of its module that a text reads, in order."""
    of_module = set(_read_of_module(symtable.symtable(definition, "function", "exec")))
    for node in ast.walk(ast.parse(definition)):
        if isinstance(node, ast.Name) and node.id in of_module:
            yield node.id
        elif isinstance(node, ast.Global):
            message = f"a function changes {', '.join(node.names)} of its module, which is lost: keep it in `state`"
            raise FunctionUnpackableError(message)


def _read_of_module(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield names that are no variables of the functions in which they stand."""
    is_module = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (is_module or symbol.is_global()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _read_of_module(inner)


def _literal(value: object) -> str | None:
    """Return a constant as Python writes it; None if it is none."""
    text = repr(value)
    if len(text) > _MOST_CONSTANT:
        return None
    try:
        same = ast.literal_eval(text) == value
    except (ValueError, SyntaxError, TypeError):
        return None
    return text if same else None
