"""The commands of a page, run in order in one folder, with what they print.

A page's files are written where they stand in it, so a later block of the same name is a new version of the file. Must
not compare: the test does, and the update writes.
"""

import contextlib
import io
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from holdfast_cli.main import main
from tests.docs.pages import ROOT, Block, PageError, blocks_of

_PROMPT = "$ "


def shown(page: Path) -> dict[Block, str]:
    """Each console block of a page with the text it should have."""
    with TemporaryDirectory() as folder:
        scratch = Path(folder)
        (scratch / "examples").symlink_to(ROOT / "examples")
        return dict(_shown(page, scratch))


def _shown(page: Path, folder: Path) -> Iterator[tuple[Block, str]]:
    for block in blocks_of(page):
        if block.title is not None:
            (folder / block.title).write_text(block.text + "\n", encoding="utf-8")
        elif block.language == "console":
            yield block, "\n".join(_run(block, command, folder) for command in commands_of(block))


def commands_of(block: Block) -> list[str]:
    """The commands of a console block."""
    commands = [line.removeprefix(_PROMPT) for line in block.text.splitlines() if line.startswith(_PROMPT)]
    if not commands or not block.text.startswith(_PROMPT):
        message = f"{block.where}: a console block starts with a command behind `$ `"
        raise PageError(message)
    return commands


def _run(block: Block, command: str, folder: Path) -> str:
    program, *arguments = shlex.split(command)
    if program != "holdfast":
        message = f"{block.where}: only holdfast is run here; write {program} in a block of another language"
        raise PageError(message)
    target: str | None = None
    if ">" in arguments:
        target = arguments[-1]
        arguments = arguments[: arguments.index(">")]
    screen = io.StringIO()
    out = io.StringIO() if target else screen
    code = _exit_code(arguments, folder, out, screen)
    if target:
        (folder / target).write_text(out.getvalue(), encoding="utf-8")
    lines = [f"{_PROMPT}{command}", *(line.rstrip() for line in screen.getvalue().rstrip().splitlines())]
    return "\n".join([*lines, f"[exit {code}]"] if code else lines)


def _exit_code(arguments: list[str], folder: Path, out: io.StringIO, err: io.StringIO) -> int:
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}),
    ):
        os.environ.pop("FORCE_COLOR", None)
        try:
            return main(arguments)
        except SystemExit as end:  # argparse ends the program where the command line is wrong
            return int(end.code or 0)
