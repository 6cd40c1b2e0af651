"""Why: an app that can't read on where it stands has a choice besides a new run; on this host a command is at hand.

Must not decide what the command would refuse, beyond what is known without looking.
"""

from collections.abc import Collection

from holdfast_cli.local.offsets_set import parse_setting
from holdfast_cli.run.run_summary import RunFiles
from holdfast_runtime.loop.lost_positions import PositionLostError


def with_offsets_command(error: PositionLostError, where: RunFiles, own: Collection[str]) -> PositionLostError:
    """The error, with the command that goes on elsewhere; `own`: streams the app makes itself, which can't be set."""
    if any(parse_setting(setting).stream in own for setting in error.settings):
        return error
    command = where.offsets(error.settings)
    message = f"{error}. Or keep the state, and go on elsewhere: {command} (docs/kafka.md says what that means)"
    return PositionLostError(message, error.settings)
