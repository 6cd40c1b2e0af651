"""Why: from a path on the command line to a `StreamApp`, or to every error in the file with line and column.

Must not print.
"""

from dataclasses import dataclass
from pathlib import Path

from holdfast.safely import safely
from holdfast.spec.app_part import StreamApp
from holdfast.spec.parse import FieldError, SpecInvalidError, parse_app
from holdfast_cli.plan.app_file import Document, FilePlace, app_document, read_text


@dataclass(frozen=True, slots=True)
class AppFile:
    """A file with what it says."""

    path: str
    text: str
    document: Document
    app: StreamApp | None
    errors: tuple[FieldError, ...]

    @property
    def name(self) -> str | None:
        """The app's name, as far as it can be made out."""
        tree = self.document.tree
        metadata = tree.get("metadata") if isinstance(tree, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return name if isinstance(name, str) else None

    def place_of(self, error: FieldError) -> FilePlace:
        """Where the error stands."""
        return self.document.place(error.path)

    def located(self, error: FieldError) -> str:
        """`app.yaml:12:7`."""
        place = self.place_of(error)
        return f"{self.path}:{place.line}:{place.column}"


def load_app(path: str) -> AppFile:
    """The app of a file; raises `FileUnreadableError` where there is none to speak of."""
    text = read_text(Path(path))
    document = app_document(text, path)
    errors = list(document.errors)
    app: StreamApp | None = None
    try:
        app = safely(lambda: parse_app(document.tree))
    except SpecInvalidError as error:
        errors += error.errors
    app = None if errors else app
    errors.sort(key=lambda error: _order(document, error))
    return AppFile(path, text, document, app, tuple(errors))


def _order(document: Document, error: FieldError) -> tuple[int, int]:
    place = document.place(error.path)
    return place.line, place.column
