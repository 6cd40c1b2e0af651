"""The line on top of each page and example that shows what this release plans and refuses to run.

It is made from the check that refuses such apps at run time, so it goes when a verb is built.
`python -m tests.docs.update` writes it; a test fails where it is missing, stale, or no longer needed. Must not judge by
itself what runs.
"""

import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter
from ruamel.yaml import YAML

from holdfast.planning.run_checks import BUILT_VERBS, not_built
from holdfast.spec.app import AppSpec
from holdfast.spec.parse import parse_app
from holdfast.spec.steps import VERBS
from holdfast_cli.plan.app_file import app_document
from tests.docs.pages import ROOT, Block, all_pages, blocks_of

_EXAMPLES = ROOT / "examples"
_MARK = "Not run by this release:"
_SOURCE = "<!-- made by python -m tests.docs.update -->"
_VERBS = ROOT / "docs" / "verbs" / "README.md"
_LIMITS = ROOT / "docs" / "limits.md"
_NAMED = re.compile(r"examples/([a-z0-9-]+)")
_LISTED = re.compile(r"\(([a-z0-9-]+)/app[.]yaml\)")


@dataclass(frozen=True, slots=True)
class Refused:
    """One app of a page that is refused when it is to run."""

    name: str
    """Empty: the page shows verbs and no app."""
    uses: frozenset[str]
    """Verbs, in backquotes, and `tables with sources`."""


def noted_files() -> tuple[Path, ...]:
    """Everything that may need the line; examples first, as pages show line numbers in them."""
    return (*sorted(_EXAMPLES.glob("*/app.yaml")), *sorted(_EXAMPLES.rglob("*.md")), *all_pages())


def with_notice(path: Path) -> str:
    """The text of this file with the line it should have, or without one."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".yaml":
        return "\n".join([*_of_example(path), *without_notice(lines)]) + "\n"
    start = next((at for at, line in enumerate(lines) if line.startswith(f"> **{_MARK}**")), None)
    if start is not None:
        del lines[start : start + 2]
    title = next((at for at, line in enumerate(lines) if line.startswith("# ")), None)
    line = _of_page(path)
    if line is not None and title is not None:
        lines[title + 2 : title + 2] = [line, ""]
    return "\n".join(lines) + "\n"


def without_notice(lines: list[str]) -> list[str]:
    """The lines of an example that somebody wrote."""
    return [line for line in lines if not line.startswith(f"# {_MARK}")]


def _of_example(path: Path) -> Iterator[str]:
    uses = _uses(_spec_of(path.read_text(encoding="utf-8"), str(path)))
    if uses:
        yield f"# {_MARK} {_listed(uses).replace('`', '')}. `holdfast plan` plans it, a run refuses it (NotBuilt)."


def _of_page(page: Path) -> str | None:
    refused = list(_refused(page))
    if not refused:
        return None
    uses = frozenset(use for one in refused for use in one.uses)
    names = frozenset(one.name for one in refused if one.name)
    where = f" On this page: {_listed(names)}." if names else ""
    limits = os.path.relpath(_LIMITS, page.parent)
    said = f"apps with {_listed(uses, 'or')}. They are planned, and refused when they are to run (`NotBuilt`)."
    return f"> **{_MARK}** {said}{where} [What runs]({limits}#what-is-not-there-yet). {_SOURCE}"


def _refused(page: Path) -> Iterator[Refused]:
    if page == _VERBS and (verbs := frozenset(f"`{verb}`" for verb in VERBS if verb not in BUILT_VERBS)):
        yield Refused("", verbs)
    for name, spec in _shown(page):
        if uses := _uses(spec):
            yield Refused(name, uses)


def _shown(page: Path) -> Iterator[tuple[str, AppSpec]]:
    """Every app that a page shows or names."""
    for block in blocks_of(page):
        if block.language != "yaml" or "invalid" in block.words:
            continue
        if block.is_app:
            yield f"`{block.title}`", _spec_of(block.text, block.where)
        else:
            yield "a part of an app", _spec_of_part(block)
    text = page.read_text(encoding="utf-8")
    pattern, folder = (_LISTED, _EXAMPLES) if page.is_relative_to(_EXAMPLES) else (_NAMED, ROOT)
    for name in sorted(set(pattern.findall(_without_line(text)))):
        path = _EXAMPLES / name / "app.yaml"
        if path.exists():
            yield f"`{path.parent.relative_to(folder)}`", _spec_of(path.read_text(encoding="utf-8"), str(path))


def _without_line(text: str) -> str:
    """What the line itself names does not count, or it would stay for ever."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(f"> **{_MARK}**"))


def _spec_of(text: str, where: str) -> AppSpec:
    return parse_app(app_document(text, where).tree).spec


def _spec_of_part(block: Block) -> AppSpec:
    tree = YAML(typ="safe", pure=True).load(io.StringIO(block.text))
    fields = {"steps": [], "tables": []} | {name: tree[name] for name in ("steps", "tables") if name in tree}
    read = {
        name: TypeAdapter(AppSpec.model_fields[name].rebuild_annotation()).validate_python(
            value, by_alias=True, by_name=False, strict=False
        )
        for name, value in fields.items()
        if value
    }
    return AppSpec.model_construct(**({"steps": [], "tables": []} | read))


def _uses(spec: AppSpec) -> frozenset[str]:
    """What of a spec the run would refuse."""
    verbs = {step.name: step.verb for step in spec.steps}
    return frozenset("tables with sources" if one.step is None else f"`{verbs[one.step]}`" for one in not_built(spec))


def _listed(words: frozenset[str], link: str = "and") -> str:
    *most, last = sorted(words, key=lambda word: (not word.startswith("`"), word))
    return f"{', '.join(most)} {link} {last}" if most else last
