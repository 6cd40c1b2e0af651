"""The `holdfast` command: parses the command line, runs one command, and turns errors into exit codes.

Exit codes are the same everywhere: 0 done (also if the reader of the output has gone), 1 the answer is no (a rejected
plan, a refused change), 2 an unreadable file or bad usage, 3 a run that could not start or failed, 130 stopped by
Ctrl-C. Must not hold what a command does. `holdfast --help` loads everything imported here, so libraries that are slow
to load or belong to an extra are imported inside the functions that need them.
"""

import argparse
import io
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version

from holdfast.errors import HoldfastError, PlanningFailedError, code_of
from holdfast_cli.authoring import completion_command, init_command
from holdfast_cli.cluster import drain_command, logs_command, status_command
from holdfast_cli.local import letters_command, offsets_command, stream_commands
from holdfast_cli.output.failures import print_failure
from holdfast_cli.output.screen import print_message
from holdfast_cli.plan import builtin_commands, diff_command, plan_command, python_command, render_command
from holdfast_cli.run import run_command
from holdfast_cli.state import state_command
from holdfast_cli.ui import ui_command

_COMMANDS = (
    init_command,
    plan_command,
    diff_command,
    render_command,
    python_command,
    run_command,
    stream_commands,
    letters_command,
    state_command,
    offsets_command,
    status_command,
    ui_command,
    logs_command,
    drain_command,
    builtin_commands,
)
_BAD_USAGE, _INTERRUPTED = 2, 130


def entry() -> None:
    """Run the console script."""
    code = main(sys.argv[1:])
    # Only the exit is left: a Ctrl-C now should end the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)


def main(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code."""
    _accept_any_text()
    options = command_parser().parse_args(arguments)
    try:
        code = _run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # `holdfast plan | head`: the reader has gone. Nothing may be written any more, not even at exit.
        sys.stdout = None
        return 0
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def _run(options: argparse.Namespace) -> int:
    try:
        return int(options.run(options))
    except BrokenPipeError:
        raise
    except (HoldfastError, OSError) as error:
        if isinstance(error, PlanningFailedError):
            traceback.print_exception(error.__cause__)
        print_message(f"holdfast: {error}")
        output, events = getattr(options, "output", "text"), getattr(options, "events", False)
        print_failure(output, code_of(error), str(error), event=events)
        return _BAD_USAGE


def _accept_any_text() -> None:
    """Escape lone surrogates in output: a JSON or YAML escape can contain one, and writing it would fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and options."""
    parser = argparse.ArgumentParser(
        prog="holdfast", description="Stateful Spark streaming on Kubernetes whose state stays where it is."
    )
    parser.add_argument("--version", action="version", version=f"holdfast {version('holdfast')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_to(commands)
    completion_command.add_to(commands, parser)
    return parser
