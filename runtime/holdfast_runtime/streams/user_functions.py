"""A user's functions by name: from the modules in the spec first, then from installed ones.

Importing runs the user's code, so it belongs to the runtime and never to the operator. Must not call the functions.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from types import ModuleType
from typing import Any

from holdfast.errors import UserActionError
from holdfast.spec.app import AppSpec
from holdfast.suggest import did_you_mean

_TEXT = "__holdfast_text__"
_LOADING = threading.RLock()
"""Several `TestDriver`s may load functions in threads of one process, and all of them change `sys.modules`."""


class _Inline(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes the spec's modules importable, by steps and by one another."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the protocol of finders
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name in self.texts else None

    def exec_module(self, module: ModuleType) -> None:
        text = self.texts[module.__name__]
        setattr(module, _TEXT, text)
        code = compile(text, f"runtime.code.{module.__name__}", "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - the user's own code, in the user's own pod


_inline = _Inline()


def load_function(path: str, code: Mapping[str, str] | None = None) -> Callable[..., Any]:
    """Return the function that `package.module:function` names."""
    name, _, attribute = path.partition(":")
    with _LOADING:
        module = _module(name, path, code or {})
    function: Callable[..., Any] | None = getattr(module, attribute, None)
    if not callable(function):
        names = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        what = "is not a function" if hasattr(module, attribute) else f"is missing{did_you_mean(attribute, names)}"
        message = f"{path}: {attribute} {what}; module {name} comes from {_origin(name, code or {})}"
        raise UserActionError(message, code="FunctionMissingError")
    return function


def require_functions(spec: AppSpec) -> None:
    """Import the functions the app calls, before anything expensive starts; raise `FunctionMissingError`."""
    verbs = [verb for step in spec.steps if (verb := step.apply or step.process) is not None]
    made = [system.generator for system in spec.systems if system.generator is not None]
    # What a module prints during its import must not mix with our output.
    with redirect_stdout(sys.stderr):
        for path in dict.fromkeys(verb.function for verb in (*verbs, *made)):
            load_function(path, spec.runtime.code)


def _module(name: str, path: str, code: Mapping[str, str]) -> ModuleType:
    _install(code)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            message = f"{path}: module {name} imports {error.name}, which is not installed"
            raise UserActionError(message, code="FunctionMissingError") from error
        message = (
            f"{path}: there is no module {error.name}{did_you_mean(name, list(code))}; "
            "put it into runtime.code or install it"
        )
        raise UserActionError(message, code="FunctionMissingError") from error
    except (Exception, SystemExit) as error:
        failure = " ".join(f"{type(error).__name__}: {error}".split())
        message = f"{path}: module {name} fails when it is imported{_line(error, name)}: {failure}"
        raise UserActionError(message, code="FunctionMissingError") from error


def _line(error: BaseException, name: str) -> str:
    """Return the last line of the module in the traceback; the true cause may be in a module it imports."""
    file = f"runtime.code.{name}" if name in _inline.texts else getattr(importlib.util.find_spec(name), "origin", None)
    if isinstance(error, SyntaxError) and error.filename == file:
        return f" (line {error.lineno})"
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    return f" (line {lines[-1]})" if lines else ""


def _install(code: Mapping[str, str]) -> None:
    """Put these modules before installed ones, and drop those of an earlier app."""
    _inline.texts = dict(code)
    if _inline not in sys.meta_path:
        sys.meta_path.insert(0, _inline)
    inline = [name for name, module in list(sys.modules.items()) if hasattr(module, _TEXT)]
    shadowed = [name for name in code if name in sys.modules and name not in inline]
    stale = [name for name in inline if getattr(sys.modules[name], _TEXT) != code.get(name)]
    # A module that imported a changed one holds its old functions, so all of them are loaded again.
    for name in [*shadowed, *(inline if stale else [])]:
        del sys.modules[name]


def _origin(name: str, code: Mapping[str, str]) -> str:
    return f"runtime.code.{name}" if name in code else str(getattr(sys.modules.get(name), "__file__", "outside"))
