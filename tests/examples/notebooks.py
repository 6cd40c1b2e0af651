"""Notebooks of the examples, run cell by cell without Jupyter: `python -m tests.examples.notebooks` rewrites outputs.

Of what a cell shows, its prints and the text of its last expression are compared: pictures are for readers. Must not
need anything that Holdfast does not need.
"""

import ast
import contextlib
import io
import json
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").rglob("*.ipynb"))


def cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells of code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def outputs(notebook: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Run the cells one after the other; yield what each shows, as the notebook keeps it."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells(notebook), start=1):
        yield _shown(_run("".join(cell["source"]), f"<cell {number}>", names), number)


def _run(text: str, name: str, names: dict[str, Any]) -> tuple[str, object]:
    """Run a cell; return what it prints, and its last expression."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    body = ast.parse(text).body
    last = body.pop() if body else None
    if last is not None and not isinstance(last, ast.Expr):
        body, last = [*body, last], None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), name, "exec"), names)  # noqa: S102 - our own notebook
        value = eval(compile(ast.Expression(last.value), name, "eval"), names) if last else None  # noqa: S307
        text_of_value = None if value is None else repr(value)
    return printed.getvalue(), text_of_value


def _shown(ran: tuple[str, object], number: int) -> list[dict[str, Any]]:
    printed, value = ran
    shown: list[dict[str, Any]] = []
    if printed:
        shown.append({"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": str(value).splitlines(keepends=True)}
        shown.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return shown


def main() -> None:
    """Write what the cells show."""
    for path in NOTEBOOKS:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for number, (cell, shown) in enumerate(zip(cells(notebook), outputs(notebook), strict=True), start=1):
            cell["execution_count"], cell["outputs"] = number, shown
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
