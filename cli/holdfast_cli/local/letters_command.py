"""The command `holdfast letters`: show an app's dead letters, one by one or in groups, or put their records back.

Showing changes nothing. The app may run meanwhile, also while records are put back, as with `holdfast feed`.
"""

import argparse

from holdfast.errors import UserActionError
from holdfast_cli.cluster.pod_command import RIGHTS, PodCommand, add_place_options
from holdfast_cli.local.local_app import add_app_options, at_least_one, on_app
from holdfast_cli.output.help_text import HelpFormatter
from holdfast_cli.output.screen import add_output_options
from holdfast_runtime.inspection.local_app import LocalApp

_MOST = 20
LETTERS_IN_POD = PodCommand(
    ("letters",), ("stream", "reason", "offset", "last", "group", "put_back", "again", "yes", "output")
)
_EPILOG = (
    """\
Shows the dead letters in all streams that the app names in deadLetter, of the embedded log or of Kafka, the newest
last: reason, where it comes from, key and value. What is no text is shown in hex, with its length. With -o json each
letter is a line; the value is JSON where it is JSON, else a text, or base64:... where it is none.

--group counts letters whose reasons differ only in numbers and quoted values (N and '...' there) and that come from the
same stream, step and column.

--put-back writes the records that the letters are about once more, as they were, each into its partition: do it after
the correction of what made them fail. They come at the end of the stream, behind all that is there now, also behind
later records of their keys; what was late for a step is late again. All steps that read the stream get them, also steps
that had no trouble with them the first time. A record is put back once, however often this is repeated, unless --again
is given. The app may run meanwhile. A letter that does not say which record it is about is left out, and counted.

"""
    + RIGHTS
    + """ Nothing is asked there: --put-back takes --yes.

Exit codes: 0 done, 1 the app is invalid, or nothing was put back without --yes, 2 the command line is wrong, or letters
can't be read.

examples:
  holdfast letters app.yaml --group
  holdfast letters app.yaml --stream priced --reason "DIVIDE_BY_ZERO" -n 100
  holdfast letters app.yaml --stream orders --put-back                    shows what would be put back
  holdfast letters app.yaml --stream orders --put-back --yes
  holdfast letters ad-clicks --namespace shop --group                     of an app on a cluster
"""
)


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command line."""
    parser = commands.add_parser(
        "letters",
        help="show an app's dead letters, or put their records back",
        description="Show the dead letters of an app, or put the records that they are about back into their streams.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    add_app_options(parser)
    add_place_options(parser, short=False)
    parser.add_argument(
        "--stream", metavar="NAME", help="only those of this stream or step, or in this stream for dead letters"
    )
    parser.add_argument("--reason", metavar="TEXT", help="only those with this text in the reason")
    parser.add_argument(
        "--offset", type=int, metavar="N", help="only those at this offset of a stream for dead letters"
    )
    parser.add_argument(
        "-n", "--last", type=at_least_one, metavar="N", help=f"the newest N, or N largest groups (default: {_MOST})"
    )
    work = parser.add_mutually_exclusive_group()
    work.add_argument("--group", action="store_true", help="count letters of one reason and origin")
    work.add_argument("--put-back", action="store_true", help="write the records again, at the end of their streams")
    parser.add_argument("--again", action="store_true", help="put back also what was put back before")
    parser.add_argument("--yes", action="store_true", help="put back without a question")
    add_output_options(parser)
    parser.set_defaults(run=on_app(_letters, LETTERS_IN_POD))


def _letters(local_app: LocalApp, options: argparse.Namespace) -> int:
    if options.put_back and options.last is not None:
        message = "--put-back takes all letters that are meant, and not the last ones: leave out -n"
        raise UserActionError(message, code="UsageError")
    if not options.put_back and (options.again or options.yes):
        message = "--again and --yes are for --put-back: add it, or leave them out"
        raise UserActionError(message, code="UsageError")
    # Imported here, as they need the extra `runtime`.
    from holdfast_cli.local.letters_put_back import put_letters_back  # noqa: PLC0415
    from holdfast_cli.local.letters_view import show_groups, show_letters  # noqa: PLC0415
    from holdfast_runtime.inspection.dead_letters import LetterFilter, dead_letters  # noqa: PLC0415

    letters = dead_letters(local_app, LetterFilter(options.stream, options.reason, options.offset))
    if options.put_back:
        return put_letters_back(local_app, letters, options)
    show = show_groups if options.group else show_letters
    show(letters, options.last or _MOST, options.output, options.color)
    return 0
