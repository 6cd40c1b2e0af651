"""A user's functions by name: from the modules in the spec and beside the app's file first, then from installed ones.

Importing runs the user's code, so it belongs to the runtime and never to the operator. Must not call the functions, nor
read files: modules are imported as they were read when the run began.
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
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

from holdfast.errors import UserActionError
from holdfast.spec.app import AppSpec
from holdfast.suggest import did_you_mean
from holdfast_runtime.streams.modules_beside import ModuleFile, ModulesBeside, functions_of

_NOTHING = ModulesBeside()

_SOURCE = "__holdfast_source__"
_LOADING = threading.RLock()
"""Several `TestDriver`s may load functions in threads of one process, and all of them change `sys.modules`."""


class _AppModules(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Makes the modules of an app importable, by steps and by one another."""

    def __init__(self) -> None:
        self.files: dict[str, ModuleFile] = {}
        self.executed: set[str] = set()
        """The names of those that were ever loaded."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the protocol of finders
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        file = self.files.get(name)
        if file is None:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, origin=file.path, is_package=file.is_package)
        spec.has_location = Path(file.path).is_absolute() and file.path.endswith(".py")
        if spec.submodule_search_locations is not None and Path(file.path).is_absolute():
            spec.submodule_search_locations.append(str(Path(file.path).parent if spec.has_location else file.path))
        return spec

    def get_source(self, fullname: str) -> str:
        return self.files[fullname].text

    def exec_module(self, module: ModuleType) -> None:
        file = self.files[module.__name__]
        setattr(module, _SOURCE, file)
        self.executed.add(module.__name__)
        code = compile(file.text, file.path, "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - the user's own code, in the user's own pod


_app_modules = _AppModules()


def load_function(
    path: str, code: Mapping[str, str] | None = None, beside: ModulesBeside = _NOTHING
) -> Callable[..., Any]:
    """Return the function that `package.module:function` names; `code`: the modules of the spec, name -> text."""
    name, _, attribute = path.partition(":")
    with _LOADING:
        module = _module(name, path, code or {}, beside)
    function: Callable[..., Any] | None = getattr(module, attribute, None)
    if not callable(function):
        names = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        what = "is not a function" if hasattr(module, attribute) else f"is missing{did_you_mean(attribute, names)}"
        message = f"{path}: {attribute} {what}; module {name} comes from {_origin(module)}"
        raise UserActionError(message, code="FunctionMissingError")
    return function


def require_functions(spec: AppSpec, beside: ModulesBeside = _NOTHING) -> None:
    """Import the functions the app calls, before anything expensive starts; raise `FunctionMissingError`."""
    # What a module prints during its import must not mix with our output.
    with redirect_stdout(sys.stderr):
        for path in functions_of(spec):
            load_function(path, spec.runtime.code, beside)


def _module(name: str, path: str, code: Mapping[str, str], beside: ModulesBeside) -> ModuleType:
    _install(_files(code, beside))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            message = f"{path}: module {name} imports {error.name}, which is not installed{_beside(beside)}"
            raise UserActionError(message, code="FunctionMissingError") from error
        raise UserActionError(_nowhere(path, error.name, code, beside), code="FunctionMissingError") from error
    except (Exception, SystemExit) as error:
        failure = " ".join(f"{type(error).__name__}: {error}".split())
        message = f"{path}: module {name} fails when it is imported{_line(error, name)}: {failure}"
        raise UserActionError(message, code="FunctionMissingError") from error


def _files(code: Mapping[str, str], beside: ModulesBeside) -> dict[str, ModuleFile]:
    """Return all modules of an app; packages around those of the spec may have no text of their own."""
    packages = [
        str(parent).replace("/", ".") for name in code for parent in list(PurePath(name.replace(".", "/")).parents)[:-1]
    ]
    around = {package: ModuleFile(f"runtime.code.{package}", "", is_package=True) for package in packages}
    texts = {name: ModuleFile(f"runtime.code.{name}", text, is_package=name in around) for name, text in code.items()}
    return {**around, **beside.files, **texts}


def _nowhere(path: str, module: str, code: Mapping[str, str], beside: ModulesBeside) -> str:
    """Return the message of a module that is in none of the places where it was looked for."""
    near = did_you_mean(module, sorted({*code, *beside.names}))
    if beside.folder is None:
        return f"{path}: there is no module {module}{near}; put it into runtime.code or install it"
    file = beside.folder / f"{path.partition(':')[0].replace('.', '/')}.py"
    return (
        f"{path}: there is no module {module} in {beside.folder}, in runtime.code or installed{near}; write {file}, "
        f"put it into runtime.code or install it"
    )


def _beside(beside: ModulesBeside) -> str:
    return "" if beside.folder is None else f" and not in {beside.folder}"


def _line(error: BaseException, name: str) -> str:
    """Return the last line of the module in the traceback; the true cause may be in a module it imports."""
    spec = importlib.util.find_spec(name)
    file = None if spec is None else spec.origin
    if isinstance(error, SyntaxError) and error.filename == file:
        return f" (line {error.lineno})"
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    return f" (line {lines[-1]})" if lines else ""


def _install(files: Mapping[str, ModuleFile]) -> None:
    """Put these modules before installed ones, and drop those of an earlier app."""
    _app_modules.files = dict(files)
    if _app_modules not in sys.meta_path:
        sys.meta_path.insert(0, _app_modules)
    loaded = {
        name: sys.modules[name] for name in sorted(_app_modules.executed) if hasattr(sys.modules.get(name), _SOURCE)
    }
    hidden = [name for name in files if name in sys.modules and name not in loaded and not _is_file(name, files[name])]
    stale = [name for name, module in loaded.items() if getattr(module, _SOURCE) != files.get(name)]
    # A module that imported a changed one holds its old functions, so all of them are loaded again.
    for name in [*hidden, *(loaded if stale else [])]:
        for module in [other for other in sys.modules if f"{other}.".startswith(f"{name}.")]:
            del sys.modules[module]


def _is_file(name: str, file: ModuleFile) -> bool:
    """Return whether a module that others have imported is this very file: a test may have put something into it."""
    module = sys.modules[name]
    path = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    return path is not None and Path(path).resolve() == Path(file.path).resolve()


def _origin(module: ModuleType) -> str:
    source: ModuleFile | None = getattr(module, _SOURCE, None)
    return str(getattr(module, "__file__", "outside")) if source is None else source.path
