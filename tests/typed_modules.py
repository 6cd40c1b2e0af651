"""The Python of examples and pages passes `mypy --strict`: modules beside an app's file are found from its folder.

`python -m tests.typed_modules` runs mypy once over all of them. Must not look at functions inside YAML of pages, which
are short and have no types.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml  # type: ignore[import-untyped]
from mypy import api

from tests.docs.pages import ROOT, all_pages, blocks_of

_CONFIG = ROOT / "pyproject.toml"


def example_modules() -> Iterator[tuple[Path, list[Path]]]:
    """Each folder with an app, and the modules in it."""
    for folder in sorted({app.parent for app in (ROOT / "examples").rglob("*.yaml")}):
        yield folder, sorted(folder.rglob("*.py"))


def modules_in_apps(directory: Path) -> Iterator[tuple[Path, list[Path]]]:
    """A folder for each example with functions inside of its YAML, written into a directory."""
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        modules = yaml.safe_load(path.read_text(encoding="utf-8")).get("spec", {}).get("runtime", {}).get("code", {})
        folder = directory / "-".join(path.relative_to(ROOT).with_suffix("").parts)
        # Modules of several apps may have one name.
        written = {folder / f"{folder.name.replace('-', '_')}_{name}.py": text for name, text in modules.items()}
        for file, text in written.items():
            folder.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        if written:
            yield folder, list(written)


def page_modules(directory: Path) -> Iterator[tuple[Path, list[Path]]]:
    """A folder for each page with modules, which have a title, written into a directory."""
    for page in all_pages():
        blocks = [block for block in blocks_of(page) if block.language == "python" and block.title]
        folder = directory / "-".join(page.relative_to(ROOT).with_suffix("").parts)
        for block in blocks:
            folder.mkdir(exist_ok=True)
            (folder / str(block.title)).write_text(block.text + "\n", encoding="utf-8")
        if blocks:
            yield folder, [folder / str(block.title) for block in blocks]


def main() -> int:
    """Say what mypy says; return its exit code."""
    with TemporaryDirectory(prefix="holdfast-pages-") as directory:
        folders = [*example_modules(), *modules_in_apps(Path(directory)), *page_modules(Path(directory))]
        config = Path(directory) / "mypy.toml"
        names = [str(folder) for folder, _ in folders]
        config.write_text(_with_folders(_CONFIG.read_text(encoding="utf-8"), names), encoding="utf-8")
        files = [str(file) for _, modules in folders for file in modules]
        output, errors, code = api.run(["--config-file", str(config), *files])
    sys.stdout.write(output + errors)
    return code


def _with_folders(text: str, folders: list[str]) -> str:
    path = 'mypy_path = "core:runtime:operator:cli"'
    assert path in text
    return text.replace(path, f'mypy_path = "{":".join(["core", "runtime", "operator", "cli", *folders])}"')


if __name__ == "__main__":
    sys.exit(main())
