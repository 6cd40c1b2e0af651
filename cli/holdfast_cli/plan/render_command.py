"""The command `holdfast render APP`: the file for `kubectl apply`, with the modules beside it in `runtime.code`.

Comments and other objects of the file stay as they are. Must not import the modules, nor ask a cluster.
"""

import argparse
import sys
from typing import Any

from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString, ScalarString

from holdfast.planning.run_checks import code_problems
from holdfast_api.yaml_layout import as_yaml
from holdfast_cli.output.screen import print_message
from holdfast_cli.plan.app_file import AppFile, app_file, load_app
from holdfast_cli.plan.plan_text import report_invalid
from holdfast_cli.plan.python_app import is_python
from holdfast_cli.plan.rewritten import rewritten_text
from holdfast_runtime.inspection.packed_app import PackedApp, packed_app

_REJECTED = 1
_MOST_APPLIED = 250_000
"""Bytes. `kubectl apply` keeps what it applies in an annotation, and annotations hold 256 KiB."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command line."""
    parser = commands.add_parser(
        "render",
        help="print the app for kubectl apply, with its Python modules",
        description="Print the file with the Python modules beside it that its functions use, and what these import "
        "from there, in runtime.code. Modules of the image and of Python stay where they are.",
        epilog="example: holdfast render app.yaml | kubectl apply -f -. Exit codes: 0 printed, 1 the app or a module "
        "is invalid, 2 the file can't be read or the modules don't fit.",
    )
    parser.add_argument("app", metavar="APP.yaml", help="the file with the StreamApp")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the file with its modules; say on stderr what was packed, and what the image must have."""
    file = load_app(options.app)
    if file.app is not None and is_python(file.path):
        file = app_file(as_yaml(file.document.tree), f"{file.path} as YAML")
    if file.app is None:
        return report_invalid([file], "text")
    packed = packed_app(file.app, file.folder)
    if problems := list(code_problems(packed.app.spec)):
        for problem in problems:
            print_message(f"{problem.reason.value}: {problem.message}")
        return _REJECTED
    text = rendered_text(file, packed) if packed.modules else file.text
    for note in _notes(packed):
        print_message(note)
    sys.stdout.write(text)
    return 0


def rendered_text(file: AppFile, packed: PackedApp) -> str:
    """Return the file with the modules."""

    def write_into(spec: Any) -> None:
        code = _map_in(_map_in(spec, "runtime"), "code")
        for name, text in packed.modules.items():
            code[name] = _block(text)

    return rewritten_text(file, write_into, packed.app, "write the modules into runtime.code")


def _map_in(parent: Any, name: str) -> Any:
    """Return a mapping of a mapping, on lines of its own; made if it is missing."""
    if parent.get(name) is None:
        parent[name] = CommentedMap()
    parent[name].fa.set_block_style()
    return parent[name]


def _block(text: str) -> ScalarString:
    """Return the text in the style in which people read it, where YAML can hold it so."""
    readable = text.strip() and all(letter.isprintable() or letter in "\n\t" for letter in text)
    block: ScalarString = LiteralScalarString(text) if readable else DoubleQuotedScalarString(text)
    return block


def _notes(packed: PackedApp) -> list[str]:
    notes = [f"packed: {', '.join(sorted(packed.modules))}"] if packed.modules else []
    if packed.elsewhere:
        notes.append(f"not packed, so the image must have it: {', '.join(packed.elsewhere)}")
    if packed.size > _MOST_APPLIED:
        notes.append("use kubectl apply --server-side: the app is too large for an annotation")
    return notes
