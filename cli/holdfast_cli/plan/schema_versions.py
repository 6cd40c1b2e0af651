"""Versions of schemas that are not registered yet, as `holdfast diff --schema` judges and shows them.

Must not judge: the core does, as the start of an attempt does.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from holdfast.errors import UserActionError, safely
from holdfast.planning.problems import ExpressionError
from holdfast.planning.subjects import SchemaMisfitError
from holdfast.planning.types.protobuf.text import imports_of
from holdfast.planning.types.record_formats import References
from holdfast.planning.version_effects import Effect, FieldEffect, VersionEffect, version_effects
from holdfast.spec.app import AppSpec
from holdfast_cli.output.screen import one_line, styled
from holdfast_cli.output.text_table import TextTable
from holdfast_cli.plan.app_file import read_text

_COLORS = {
    Effect.REFUSED: "bold red",
    Effect.DOUBTFUL: "yellow",
    Effect.UNKNOWN: "yellow",
    Effect.WIDENED: "green",
    Effect.FITS: "green",
    Effect.IGNORED: "dim",
    Effect.FILLED: "dim",
}


def schema_files(arguments: Sequence[str], *, apps: Sequence[str]) -> dict[str, str]:
    """Return stream -> file of arguments like `orders=order.avsc`; `apps`: the files that are read, too."""
    files: dict[str, str] = {}
    for argument in arguments:
        name, _, file = argument.partition("=")
        if not name or not file:
            _refuse(argument, "write STREAM=FILE, e.g. orders=order.avsc")
        if name in files:
            _refuse(argument, f"stream {name} has {files[name]} already; judge one version at a time")
        files[name] = file
    if [*files.values(), *apps].count("-") > 1:
        _refuse(arguments[0], "standard input is one file; write - once")
    return files


def _refuse(argument: str, why: str) -> NoReturn:
    message = f"--schema {argument}: {why}"
    raise UserActionError(message, code="UsageError")


def judged_versions(spec: AppSpec, files: Mapping[str, str]) -> list[VersionEffect]:
    """Return what the version in each file does to the app."""
    effects: list[VersionEffect] = []
    for name, file in files.items():
        text = read_text(Path(file))
        references = _imported(text, Path(file).parent) if file != "-" and file.endswith(".proto") else ()
        effects += safely(partial(version_effects, spec, name, text, references))
    return effects


def _imported(text: str, folder: Path) -> References:
    """Return names and texts of the files beside a `.proto` file that it and they import."""
    texts: dict[str, str] = {}
    left = [text]
    while left:
        try:
            names = imports_of(left.pop())
        except ExpressionError:
            continue  # which is said where it is judged
        for name in names:
            if name not in texts and (folder / name).is_file():
                texts[name] = read_text(folder / name)
                left.append(texts[name])
    return tuple(texts.items())


def versions_tree(effects: Iterable[VersionEffect]) -> list[dict[str, object]]:
    """Return effects for `-o json`."""
    return [
        {
            "stream": effect.stream,
            "subject": effect.subject,
            "role": effect.role.value,
            "refused": effect.refusal is not None,
            "error": None if effect.refusal is None else SchemaMisfitError.__name__,
            "message": effect.refusal,
            "fields": [_field_tree(field) for field in effect.fields],
            "notes": list(effect.notes),
        }
        for effect in effects
    ]


def _field_tree(field: FieldEffect) -> dict[str, object]:
    return {
        "path": field.path,
        "schema": field.schema,
        "column": field.column,
        "effect": field.effect.value,
        "why": field.why or None,
    }


def print_versions(console: Console, effects: Iterable[VersionEffect]) -> None:
    """Print each effect: its fields, what is to know, and whether the app starts."""
    for number, effect in enumerate(effects):
        if number:
            console.print()
        _print(console, effect)


def _print(console: Console, effect: VersionEffect) -> None:
    console.print(styled((effect.stream, "bold"), f"  {effect.role}, subject {effect.subject}"))
    if effect.fields:
        console.print()
        table = TextTable("FIELD", "SCHEMA", "COLUMN", "EFFECT")
        for field in effect.fields:
            filled = f": {field.why}" if field.effect is Effect.FILLED else ""
            cell = (f"{field.effect}{one_line(filled)}", _COLORS[field.effect])
            table.add(field.path, one_line(field.schema or "-"), one_line(field.column or "-"), cell)
        table.print(console)
        console.print()
    for field in effect.fields:
        if field.effect in (Effect.DOUBTFUL, Effect.UNKNOWN):
            console.print(styled(("note", "yellow"), f": {field.path}: {one_line(field.why)}"))
    for note in effect.notes:
        console.print(styled(("note", "yellow"), f": {note}"))
    if effect.refusal is not None:
        console.print(styled(("refused", "bold red"), f": {SchemaMisfitError.__name__}: {one_line(effect.refusal)}"))
    else:
        console.print(styled(("applies", "green"), ": with this version as the latest, the app starts"))
