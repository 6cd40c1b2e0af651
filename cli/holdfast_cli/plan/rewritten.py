"""A user's file with a change written into it: comments, quotes and other documents stay as they are.

A file whose anchors would copy a change to other places is refused rather than changed wrongly. Must not decide what to
change.
"""

import io
from collections.abc import Callable
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from holdfast.errors import UserActionError
from holdfast.spec.app import KIND, StreamApp
from holdfast.spec.diff import diff
from holdfast.spec.parse import SpecInvalidError, parse_app
from holdfast_cli.plan.app_file import AppFile, FileUnreadableError, app_document


def rewritten_text(file: AppFile, write_into: Callable[[Any], None], app: StreamApp, other_way: str) -> str:
    """Return the file after `write_into` has changed its spec to that of this app.

    `other_way`: what people can do where the file's anchors are in the way.
    """
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 10_000
    offset = _list_offset(file)
    yaml.indent(mapping=2, sequence=offset + 2, offset=offset)
    documents = _documents(yaml, file)
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == KIND:
            write_into(document["spec"])
    out = io.StringIO()
    yaml.dump_all(documents, out)
    text = out.getvalue()
    if wrong := _wrong(file, text, app):
        message = (
            f"{file.path}: the file's anchors can't be kept, {wrong} would be wrong after the change; write out what "
            f"its aliases stand for, or {other_way}"
        )
        raise UserActionError(message, code="RepairUnwritableError")
    return text


def _documents(yaml: YAML, file: AppFile) -> list[Any]:
    """Return all documents, not only the app: all are printed, and none may lose anything."""
    try:
        return list(yaml.load_all(file.text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        address = f"{file.path}:{mark.line + 1}:{mark.column + 1}" if mark else file.path
        what = (error.problem or error.context or "not YAML").splitlines()[0]
        message = f"{address}: {what}; the file can't be rewritten without loss; correct this first"
        raise UserActionError(message, code="RepairUnwritableError") from error
    except (YAMLError, RecursionError, ValueError) as error:
        message = f"{file.path} can't be rewritten without loss: {error}"
        raise UserActionError(message, code="RepairUnwritableError") from error


def _wrong(file: AppFile, text: str, app: StreamApp) -> str | None:
    """Return a field that is not as in this app, as an alias can copy a change to unintended places; None: all are."""
    try:
        document = app_document(text, file.path)
        changes = () if document.errors else diff(app, parse_app(document.tree)).changes
        wrong = [error.dotted for error in document.errors] + [change.path for change in changes]
    except (FileUnreadableError, SpecInvalidError) as error:
        wrong = [str(error)]
    return wrong[0] if wrong else None


def _list_offset(file: AppFile) -> int:
    """Return how far the file indents list dashes below their key."""
    key, item = file.document.mark(("spec", "steps")), file.document.mark(("spec", "steps", 0))
    return max(0, item.column - key.column - 2) if item.line > key.line else 0
