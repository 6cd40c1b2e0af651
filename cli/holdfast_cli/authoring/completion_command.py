"""The command `holdfast completion`: print a script with which a shell completes commands, options and their values.

The scripts are shtab's, made from the parser itself, so that no list is written twice. What argparse does not know is
added here: which arguments are files, and the reasons. Must not look at an app: a shell waits for it at each key.
"""

import argparse
import sys
from collections.abc import Iterator

from holdfast.reasons import Reason
from holdfast_cli.output.help_text import HelpFormatter

_EPILOG = """\
to install it, once:
  holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
  holdfast completion zsh > ~/.zfunc/_holdfast      with fpath=(~/.zfunc $fpath) before compinit in ~/.zshrc
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish

or for one session of bash:
  eval "$(holdfast completion bash)"
"""
_SHELLS = ("bash", "zsh", "fish")
_FILES = frozenset({"APP.yaml", "OLD", "NEW", "FILE"})
_DIRECTORIES = frozenset({"DIR"})


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", whole: argparse.ArgumentParser) -> None:
    """Add the command line to `whole`, the parser of all commands."""
    parser = commands.add_parser(
        "completion",
        help="print a script for completion in bash, zsh or fish",
        description="Print a script with which a shell completes commands, options, their values and files.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("shell", choices=_SHELLS)
    parser.set_defaults(run=lambda options: _print(options.shell, whole))


def _print(shell: str, parser: argparse.ArgumentParser) -> int:
    import shtab  # noqa: PLC0415 - no other command needs it

    for action in _actions(parser):
        if action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar in _DIRECTORIES:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.metavar == "REASON":
            action.choices = [reason.value for reason in Reason]
    sys.stdout.write(shtab.complete(parser, shell=shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to what a parser takes
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for command in action.choices.values():
                yield from _actions(command)
