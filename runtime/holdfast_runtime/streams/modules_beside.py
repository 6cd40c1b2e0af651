"""The Python modules beside an app's file: those that its functions name, and what these import from there.

They are found by reading import statements, so that what runs on this host is exactly what `holdfast render` packs for
a cluster, and a file that nothing imports is never touched. Their texts are read once, before anything starts: an edit
meanwhile would make one run of two versions. A name that an installed module has too is refused, as one of the two
would be hidden. Must not import or run a module.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from importlib.util import decode_source
from pathlib import Path

from holdfast.errors import UserActionError
from holdfast.spec.app import AppSpec

_INIT = "__init__"
_INSTALLED_IN = ("site-packages", "dist-packages")
_OURS = ("holdfast", "holdfast_runtime", "holdfast_cli", "holdfast_operator")


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """A module beside an app's file, as it was read."""

    path: str
    """Its file; for a package without an `__init__.py` its directory."""
    text: str
    is_package: bool = False


@dataclass(frozen=True, slots=True)
class ModulesBeside:
    """The modules beside an app's file that its functions use."""

    folder: Path | None = None
    """The directory of the app's file; None: the app is not from a file."""
    files: Mapping[str, ModuleFile] = field(default_factory=dict)
    """Module with its package, such as `parcels.zones` -> its file. Packages have an entry of their own."""

    @property
    def names(self) -> list[str]:
        """All modules that are there, used or not."""
        if self.folder is None:
            return []
        modules = [path.stem for path in self.folder.glob("*.py")]
        return modules + [path.parent.name for path in self.folder.glob(f"*/{_INIT}.py")]


def functions_of(spec: AppSpec) -> list[str]:
    """Return the functions that an app calls, as `package.module:function`."""
    verbs = [verb.function for step in spec.steps if (verb := step.apply or step.process) is not None]
    return list(dict.fromkeys(verbs + [system.generator.function for system in spec.systems if system.generator]))


def modules_beside(spec: AppSpec, folder: Path | None) -> ModulesBeside:
    """Read the modules in this directory that an app uses; raise `ModuleNameError` if a name is that of another one."""
    if folder is None:
        return ModulesBeside()
    code, files = spec.runtime.code, dict[str, ModuleFile]()
    needed = [path.partition(":")[0] for path in functions_of(spec)]
    for name, text in code.items():
        needed += imported_modules(text, name, is_package=False)
    while needed:
        for name, file in _files_of(needed.pop(), folder):
            if name in files:
                continue
            if name in code:
                _refuse_other_text(name, file, code[name])
                break
            if name.partition(".")[0] == name:
                _refuse_installed(name, file)
            files[name] = file
            needed += imported_modules(file.text, name, is_package=file.is_package)
    return ModulesBeside(folder, files)


def imported_modules(text: str, module: str, *, is_package: bool) -> list[str]:
    """Return the modules that a text may import; of `from a import b` both `a` and `a.b`, which may be a module.

    A text that is not Python imports nothing: what imports it says where it is wrong.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    modules: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = _absolute(node, module, is_package=is_package)
            if source:
                modules += [source, *(f"{source}.{alias.name}" for alias in node.names if alias.name != "*")]
    return modules


def _absolute(node: ast.ImportFrom, module: str, *, is_package: bool) -> str:
    """Return the module from which is imported, without leading dots; empty: there is no such package."""
    if not node.level:
        return node.module or ""
    up = node.level - 1 if is_package else node.level
    package = module.split(".")[: len(module.split(".")) - up]
    return ".".join([*package, *([node.module] if node.module else [])]) if package else ""


def _files_of(name: str, folder: Path) -> Iterator[tuple[str, ModuleFile]]:
    """Yield a module and the packages around it, the outermost first, as far as they are in a directory."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        inner = folder.joinpath(*parts[:length])
        init, single = inner / f"{_INIT}.py", inner.with_name(f"{inner.name}.py")
        if init.is_file():
            yield ".".join(parts[:length]), ModuleFile(str(init), _text(init), is_package=True)
        elif single.is_file():
            yield ".".join(parts[:length]), ModuleFile(str(single), _text(single))
            return
        elif _is_plain_package(inner, parts, length):
            yield ".".join(parts[:length]), ModuleFile(str(inner), "", is_package=True)
        else:
            return


def _is_plain_package(directory: Path, parts: list[str], length: int) -> bool:
    """Return whether a directory is a package without `__init__.py`; an installed module goes before such a one."""
    if length == 1 and _installed(parts[0], directory) is not None:
        return False
    return directory.is_dir() and any(directory.glob("*.py"))


def _text(path: Path) -> str:
    try:
        return decode_source(path.read_bytes())
    except (OSError, UnicodeDecodeError, SyntaxError) as error:
        message = f"{path} can't be read: {error}"
        raise UserActionError(message, code="ModuleUnreadableError") from error


def _refuse_other_text(name: str, file: ModuleFile, text: str) -> None:
    """Raise an error if a module stands in the spec and, with another text, beside it."""
    if file.text.strip() != text.strip():
        message = (
            f"module {name} is in runtime.code and, with another text, in {file.path}: which of the two was meant is "
            f"not known; remove {name} from runtime.code, or rename the file"
        )
        raise UserActionError(message, code="ModuleNameError")


def _refuse_installed(name: str, file: ModuleFile) -> None:
    """Raise an error if an installed module has this name: all that import it would get the one beside the app."""
    if (origin := _installed(name, Path(file.path))) is not None:
        message = (
            f"{file.path} has the name of {origin}, which others import as {name}: rename it, and in the app's "
            f"functions and imports too"
        )
        raise UserActionError(message, code="ModuleNameError")


def _installed(name: str, beside: Path) -> str | None:
    """Return what has this name on this host other than the module beside; None if nothing has."""
    if name in sys.stdlib_module_names:
        return f"Python's own module {name}"
    if name in _OURS:
        return f"Holdfast's own module {name}"
    spec = PathFinder.find_spec(name, [entry for entry in sys.path if Path(entry).name in _INSTALLED_IN])
    if spec is None or spec.origin is None or Path(spec.origin).resolve() == beside.resolve():
        return None
    return f"the installed module {spec.origin}"
