"""What pages and docstrings mention of the product, and whether it exists: paths, commands, names, reasons, packages.

A sentence outlives what it speaks of when a file moves, a function is renamed or an option goes. Each kind of mention
has a function that returns why what a text mentions does not exist. Names are looked for in the code itself, without
its docstrings, so that two stale sentences can't prove each other. Must not judge prose: only what is in backticks,
in blocks of commands, or in quotes behind `pip install`.
"""

import argparse
import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from holdfast.protocol.metrics import METRICS
from holdfast_cli.main import command_parser
from tests.docs.pages import ROOT, all_pages, blocks_of

CODE = ("core", "runtime", "operator", "cli", "bench", "images")
_KINDS = ("py", "md", "yaml", "yml", "json", "jsonl", "toml", "c", "sh", "svg", "lock")
# A file without a folder is a module of ours, or one of the reader's; NAME stands for one of many.
_PATH = re.compile(rf"(?<![\w./<*$~-])((?:[\w-][\w.-]*/)+[\w-]+\.(?:{'|'.join(_KINDS)})|[\w-]+\.py)(?![\w/*])")
_PLACEHOLDER = re.compile(r"(?<![A-Z])(NAME|STREAM)(?![A-Z])")
_TICKS = re.compile(r"`([^`\n]+)`")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"_{0,2}[A-Za-z]\w*(?:\.\w+)*(?:\(\))?")
_WORD = re.compile(r"[A-Za-z_]\w*")
_SERIES = frozenset(series for metric in METRICS.values() for series in metric.series)


@dataclass(frozen=True, slots=True)
class Text:
    """Something that people read: a page without its blocks, or a docstring."""

    where: str
    text: str
    folder: Path
    """From where its paths may be meant."""
    is_code: bool = False
    """Whether every name in it is one of the code."""


def pages() -> Iterator[Text]:
    """The pages; decisions say what was when they were taken, and the changelog too."""
    files = [*all_pages(), *sorted((ROOT / "examples").rglob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
    for file in files:
        if "decisions" not in file.parts:
            yield Text(str(file.relative_to(ROOT)), file.read_text(encoding="utf-8"), file.parent)


def docstrings() -> Iterator[Text]:
    """Of all modules, classes, functions and fields."""
    for file in _sources():
        for constant in _docstrings(file):
            yield Text(f"{file.relative_to(ROOT)}:{constant.lineno}", str(constant.value), file.parent, is_code=True)


@cache
def _sources() -> tuple[Path, ...]:
    return tuple(file for folder in CODE for file in sorted((ROOT / folder).rglob("*.py")))


@cache
def _docstrings(file: Path) -> tuple[ast.Constant, ...]:
    return tuple(_docstrings_in(ast.parse(file.read_text(encoding="utf-8")).body))


def _docstrings_in(body: Sequence[ast.stmt]) -> Iterator[ast.Constant]:
    for statement in body:
        match statement:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                yield text
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _docstrings_in(statement.body)


def mentioned_paths(text: str) -> Iterator[str]:
    """Paths of files in backticks, outside of blocks."""
    for tick in _TICKS.findall(_FENCE.sub("", text)):
        if "://" not in tick and not _PLACEHOLDER.search(tick):
            yield from _PATH.findall(tick)


def missing_path(path: str, folder: Path) -> str | None:
    """Why this is no file: of the repository, seen from anywhere in it, or of its folder."""
    if (folder / path).exists() or path in _files():
        return None
    return f"there is no file {path}"


@cache
def _files() -> frozenset[str]:
    """All files, by every end of their paths."""
    skipped = {".git", ".venv", "__pycache__"}
    tops = (top for top in ROOT.iterdir() if top.name not in skipped and not top.name.endswith("_cache"))
    files = (file for top in tops for file in ([top] if top.is_file() else top.rglob("*.*")))
    parts = (file.relative_to(ROOT).parts for file in files if not skipped & {*file.parts})
    return frozenset("/".join(names[at:]) for names in parts for at in range(len(names)))


def mentioned_names(text: str) -> Iterator[str]:
    """Names of the code in backticks, e.g. `Store.apply`: a name alone, dotted or called."""
    for tick in _TICKS.findall(_FENCE.sub("", text)):
        if _NAME.fullmatch(tick) and not _PATH.fullmatch(tick):
            yield tick.removesuffix("()")


def of_the_product(name: str) -> bool:
    """Whether a page can mean nothing else by a name than a reason, a type, a metric or a variable of the product.

    Other words in backticks are columns, functions of Spark and settings of others.
    """
    return re.fullmatch(r"(holdfast|HOLDFAST)_\w+|[A-Z][a-z]+([A-Z][a-z]+)+", name) is not None


def missing_name(name: str) -> str | None:
    """Why this names nothing: one of its parts stands nowhere in the code but in docstrings and comments."""
    # What the list of metrics has not is of none that is served, whatever else has that name.
    unknown = [part for part in name.split(".") if part not in _names() | _SERIES]
    return f"nothing is called {unknown[0]}" if unknown else None


@cache
def _names() -> frozenset[str]:
    names = set(OF_OTHERS)
    for file in _sources():
        names.update(file.relative_to(ROOT).with_suffix("").parts)
        lines = file.read_text(encoding="utf-8").splitlines()
        for docstring in _docstrings(file):
            lines[docstring.lineno - 1 : docstring.end_lineno] = [""] * (
                (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
            )
        names.update(*(_WORD.findall(line.partition("  # ")[0]) for line in lines if not line.lstrip().startswith("#")))
    for file in (
        ROOT / "pyproject.toml",
        ROOT / ".importlinter",
        ROOT / "Makefile",
        *(ROOT / "charts").rglob("*.yaml"),
    ):
        names.update(_WORD.findall(file.read_text(encoding="utf-8")))
    for file in (ROOT / "tests").rglob("*.py"):
        names.update(re.findall(r"environ\S+\"(HOLDFAST_\w+)", file.read_text(encoding="utf-8")))
    return frozenset(names)


OF_OTHERS = frozenset(
    {
        *("AbortIncompleteMultipartUpload", "EvictionByEvictionAPI", "HDFSBackedStateStoreProvider"),
        *("fbs", "fromDDL", "getrusage", "host_id", "HOLDFAST_KAFKA__EVENTS__SASL_PASSWORD", "X"),
        "HOLDFAST_REGISTRY__EVENTS__PASSWORD",
        "HOLDFAST_LINEAGE__OPENLINEAGE__TOKEN",
    }
)
"""What texts mention of Kubernetes, Spark, Arrow, S3 and Python, and names that stand for one of many."""


def mentioned_commands(text: str) -> Iterator[str]:
    """Command lines: in backticks, and the lines of blocks that begin like one."""
    for block in _FENCE.findall(text):
        yield from (line.strip().removeprefix("$ ") for line in block.splitlines() if _COMMAND.match(line.strip()))
    for tick in _TICKS.findall(_FENCE.sub("", text)):
        if _COMMAND.match(tick):
            yield tick


_COMMAND = re.compile(r"(\$ )?(holdfast|make|python -m|\.venv/bin/python -m|pip install) ")


def missing_command(line: str) -> str | None:
    """Why a command can't be given: no such subcommand, option, target, module or package."""
    words = line.split("#", maxsplit=1)[0].split("|", maxsplit=1)[0].split()
    if words[0] == "holdfast":
        return _missing_option(words[1:])
    if words[0] == "make":
        return next(
            (f"there is no target {one}" for one in words[1:] if one not in _targets() and "=" not in one), None
        )
    if words[0] == "pip":
        return _missing_package(words[2:])
    module = words[2].split(":")[0]
    if not module.startswith(("tests", "holdfast", "bench")):
        return None
    path = module.replace(".", "/")
    exists = not _files().isdisjoint({f"{path}.py", f"{path}/__init__.py", f"{path}/__main__.py"})
    return None if exists else f"there is no module {module}"


@cache
def _targets() -> frozenset[str]:
    return frozenset(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def _missing_option(words: list[str]) -> str | None:
    parser, command = _commands(), "holdfast"
    for word in words:
        name = word.strip("[]().,;:'\"").split("=")[0].split("|")[0]
        commands = _subcommands(parser)
        if name.startswith("-") and not any(name in one._option_string_actions for one in (parser, *commands.values())):  # noqa: SLF001
            return f"{command} has no option {name}"
        if commands and re.fullmatch(r"[a-z]+", name):
            if name not in commands:
                return f"{command} has no command {name}"
            parser, command = commands[name], f"{command} {name}"
    return None


_commands = cache(command_parser)


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001 - argparse tells no one
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return dict(action.choices)
    return {}


def _missing_package(words: list[str]) -> str | None:
    for word in words:
        name, _, extras = word.strip("'\"").partition("[")
        if name == "holdfast":
            return "no package holdfast is published: install from a checkout, '.[extra]'"
        for extra in extras.rstrip("]").split(",") if name == "." and extras else ():
            if extra not in extras_of_the_product():
                return f"there is no extra {extra}"
    return None


@cache
def extras_of_the_product() -> dict[str, frozenset[str]]:
    """Extra -> the packages that it installs."""
    tree = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {
        extra: frozenset(re.split(r"[><=~\[]", package)[0] for package in packages)
        for extra, packages in tree["project"]["optional-dependencies"].items()
    }


def commands_shown_unrun() -> Iterator[str]:
    """Blocks with the output of a command that no test runs, since they do not say that they are a console."""
    for page in all_pages():
        for block in blocks_of(page):
            if block.language != "console" and _SHOWN.search(block.text):
                yield f"{block.where} shows what a command prints, and is not run: make it a console block"


_SHOWN = re.compile(r"^\$ holdfast (plan|diff|explain) ", re.MULTILINE)


def packages_to_install() -> Iterator[Text]:
    """What messages of the product say to install."""
    for file in _sources():
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if "pip install" in line:
                yield Text(f"{file.relative_to(ROOT)}:{number}", line, file.parent)


def missing_packages(text: str) -> Iterator[str]:
    """Why these packages can't be installed."""
    for words in re.findall(r"pip install ((?:'[^']+'|\S+))", text):
        if (why := _missing_package([words])) is not None:
            yield why
