"""Every fenced block of the documentation does what the page says."""

import ast
import io
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from holdfast.spec.app import AppSpec
from holdfast.spec.parse import SpecInvalidError, parse_app
from holdfast_cli.plan.app_file import app_document
from tests.docs.pages import Block, all_pages, blocks_of
from tests.docs.running import shown

BLOCKS = [block for page in all_pages() for block in blocks_of(page)]


def of(language: str) -> list[Any]:
    return [pytest.param(block, id=block.where) for block in BLOCKS if block.language == language]


@cache
def run(page: Path) -> dict[Block, str]:
    return shown(page)


@pytest.mark.parametrize("block", of("console"))
def test_a_console_block_shows_what_the_command_prints(block: Block) -> None:
    # Not true any more? `python -m tests.docs.update` writes what is.
    assert run(block.page)[block].splitlines() == [line.rstrip() for line in block.text.splitlines()]


@pytest.mark.parametrize("block", of("yaml"))
def test_a_yaml_block_is_an_app_or_part_of_one(block: Block) -> None:
    if not block.is_app:
        assert_is_part_of_a_spec(block)
        return
    assert block.title, f'{block.where}: a whole app has a title, as in ```yaml title="app.yaml"'
    document = app_document(block.text, block.where)
    if "invalid" in block.words:
        with pytest.raises(SpecInvalidError):
            parse_app(document.tree)
        return
    assert not document.errors
    for module, text in parse_app(document.tree).spec.runtime.code.items():
        ast.parse(text, filename=f"{block.where} {module}")


def assert_is_part_of_a_spec(block: Block) -> None:
    tree = YAML(typ="safe", pure=True).load(io.StringIO(block.text))
    assert isinstance(tree, dict), f"{block.where}: write the field of the spec above what is shown"
    fields = {field.alias or name: field for name, field in AppSpec.model_fields.items()}
    for name, value in tree.items():
        assert name in fields, f"{block.where}: the spec has no field {name}"
        part: TypeAdapter[Any] = TypeAdapter(fields[name].rebuild_annotation())
        part.validate_python(value, by_alias=True, by_name=False, strict=False)


def test_blocks_of_other_languages_can_be_read() -> None:
    for block in BLOCKS:
        if block.language == "python":
            ast.parse(block.text, filename=block.where)
        if block.language == "json":
            assert json.loads(block.text)


def test_blocks_are_in_languages_that_are_looked_at() -> None:
    known = {"console", "yaml", "python", "json", "sh", "text", "sql", "mermaid"}
    assert {block.where for block in BLOCKS if block.language not in known} == set()


def test_files_that_commands_read_are_written_on_the_page() -> None:
    assert list(unread()) == [], "these blocks have a title, but no command reads them"


def unread() -> Iterator[str]:
    for page in all_pages():
        blocks = blocks_of(page)
        for at, block in enumerate(blocks):
            # A module is named by an app without its ending.
            name = (block.title or "").removesuffix(".py")
            called = name != block.title and any(f" {name}:" in app.text for app in blocks if app.is_app)
            if (
                name
                and not called
                and not any(name in later.text for later in blocks[at:] if later.language == "console")
            ):
                yield block.where
