"""App files in Python: imported as a script is, for the one `App` that they declare.

Modules beside the file can be imported by it. What it prints goes to standard error, so that it does not mix with the
output of the command. An error in it is one line with its own line, not a traceback through Holdfast. Must not be used
by the operator: it runs code of the user.
"""

import sys
import traceback
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import CodeType
from typing import Any

from pydantic import ValidationError

from holdfast.errors import HoldfastError, UserActionError
from holdfast.spec.parse import errors_of_part
from holdfast.spec.rule_checks import FieldPath
from holdfast_api import App

_MODULE = "__holdfast_app__"
"""What the file is called while it runs: no name that an import would look for."""
_NAME = "app"


class PythonAppError(UserActionError):
    """A file of Python that fails, or declares no app."""


@dataclass(frozen=True, slots=True)
class PythonApp:
    """What a file declares, and where."""

    tree: dict[str, Any]
    marks: Mapping[FieldPath, tuple[int, int]]
    """Path -> line and column of the call that declares it, for calls of this file."""


def is_python(path: str) -> bool:
    """Return whether an app file is one of Python."""
    return path.endswith(".py")


def python_app(text: str, path: str) -> PythonApp:
    """Run a file and return the app that it declares."""
    file = str(Path(path).resolve())
    draft = _app_of(_values(text, path, file), path).draft
    lines = {field: line for field, line in draft.lines.items() if line.file == file}
    return PythonApp(draft.tree(), {field: (line.line, line.column) for field, line in lines.items()})


def _values(text: str, path: str, file: str) -> dict[str, Any]:
    try:
        code = compile(text, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        message = f"{path}{f':{line}' if line else ''}: not Python: {getattr(error, 'msg', error)}"
        raise PythonAppError(message) from error
    return _run(code, path, file)


def _run(code: CodeType, path: str, file: str) -> dict[str, Any]:
    module = module_from_spec(ModuleSpec(_MODULE, None, origin=file))
    module.__file__ = file
    folder = Path(file).parent
    sys.path[:] = [str(folder), *(entry for entry in sys.path if entry != str(folder))]
    sys.modules[_MODULE] = module
    loaded_before = set(sys.modules)
    try:
        with redirect_stdout(sys.stderr):
            exec(code, module.__dict__)  # noqa: S102 - the file that the user names
    except (Exception, SystemExit) as error:
        lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
        address = f"{path}:{lines[-1]}" if lines else path
        message = f"{address}: {_sentence(error)}"
        raise PythonAppError(message) from error
    finally:
        _forget(set(sys.modules) - loaded_before, folder)
    return vars(module)


def _forget(names: set[str], folder: Path) -> None:
    """Let go of modules beside the file: another app, as that to compare with, may have others of these names."""
    for name in names:
        origin = getattr(sys.modules[name], "__file__", None)
        if origin is not None and folder in Path(origin).resolve().parents:
            del sys.modules[name]


def _sentence(error: BaseException) -> str:
    """Return what is wrong, on one line."""
    if isinstance(error, HoldfastError):
        return str(error)
    if isinstance(error, ValidationError):
        return "; ".join(f"{error.title}.{field}" for field in errors_of_part(error))
    return " ".join(f"{type(error).__name__}: {error}".split())


def _app_of(values: Mapping[str, Any], path: str) -> App:
    if isinstance(values.get(_NAME), App):
        return values[_NAME]  # type: ignore[no-any-return]  # as was just asked
    apps = {id(value): value for value in values.values() if isinstance(value, App)}
    if len(apps) == 1:
        return apps.popitem()[1]
    if apps:
        message = f"{path} declares {len(apps)} apps: call the one that is meant `{_NAME}`"
        raise PythonAppError(message)
    message = f"{path} declares no app: {_NAME} = App(...), of holdfast_api"
    raise PythonAppError(message)
