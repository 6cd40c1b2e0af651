"""What pages and docstrings mention of the product exists: files, commands, names, reasons, packages."""

import re

import pytest

from holdfast.reasons import Reason
from tests.docs.mentions import (
    Text,
    commands_shown_unrun,
    docstrings,
    extras_of_the_product,
    mentioned_commands,
    mentioned_names,
    mentioned_paths,
    missing_command,
    missing_name,
    missing_packages,
    missing_path,
    of_the_product,
    packages_to_install,
    pages,
)
from tests.docs.pages import ROOT

KINDS = {"pages": pages, "docstrings": docstrings}
of_each_kind = pytest.mark.parametrize("kind", KINDS)


def stale(text: Text) -> list[str]:
    """Why what a text mentions does not exist."""
    complaints = [missing_path(path, text.folder) for path in mentioned_paths(text.text)]
    complaints += [missing_command(command) for command in mentioned_commands(text.text)]
    complaints += [missing_name(name) for name in mentioned_names(text.text) if text.is_code or of_the_product(name)]
    return [f"{text.where}: {why}" for why in complaints if why is not None]


@of_each_kind
def test_what_a_text_mentions_exists(kind: str) -> None:
    texts = list(KINDS[kind]())
    assert len(texts) > 40
    assert [why for text in texts for why in stale(text)] == []


def test_messages_name_packages_that_can_be_installed() -> None:
    texts = list(packages_to_install())
    assert len(texts) > 2
    assert [f"{text.where}: {why}" for text in texts for why in missing_packages(text.text)] == []


def test_what_commands_print_is_run_where_it_is_shown() -> None:
    assert list(commands_shown_unrun()) == []


def test_nothing_is_said_not_to_run_yet() -> None:
    pattern = re.compile(r"do(es)? not run yet|runs? .{0,60} without\s+joins", re.DOTALL)
    assert [text.where for text in pages() if pattern.search(text.text)] == []


def test_dependencies_are_in_the_extras_that_the_page_says() -> None:
    rows = re.findall(
        r"^\| ([\w-]+)[^|]* \| ([^|]+) \|", (ROOT / "docs/architecture.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    users_by_package = {package: re.findall(r"`(\w+)`", users) for package, users in rows if "extra" in users}
    assert len(users_by_package) > 8
    extras = {name: packages for name, packages in extras_of_the_product().items() if name != "dev"}
    assert {package: {*names} for package, names in users_by_package.items()} == {
        package: {name for name in extras if package in extras[name]} for package in users_by_package
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Then `holdfast_lost_rows_total` grows.", "nothing is called holdfast_lost_rows_total"),
        ("Set `HOLDFAST_LUCK`.", "nothing is called HOLDFAST_LUCK"),
        ("See `tests/planning/spark_types.json`.", "there is no file tests/planning/spark_types.json"),
        ("It is in `run_nothing.py`.", "there is no file run_nothing.py"),
        ("Then `StateForgotten` is shown.", "nothing is called StateForgotten"),
        ("Say `holdfast plan APP --quiet`.", "holdfast plan has no option --quiet"),
        ("Say `holdfast explode APP`.", "holdfast has no command explode"),
        ("Say `make money`.", "there is no target money"),
        ("Say `python -m tests.docs.nothing`.", "there is no module tests.docs.nothing"),
        (
            "Say `pip install 'holdfast[kafka]'`.",
            "no package holdfast is published: install from a checkout, '.[extra]'",
        ),
        ("Say `pip install '.[cassandra]'`.", "there is no extra cassandra"),
        ("```sh\nholdfast run app.yaml --for-ever\n```", "holdfast run has no option --for-ever"),
    ],
)
def test_what_does_not_exist_is_found(text: str, why: str) -> None:
    assert stale(Text("page", text, ROOT)) == [f"page: {why}"]


def test_a_docstring_that_names_what_is_gone_is_found() -> None:
    docstring = Text("module", "Must not start a driver: `without_driver` does.", ROOT, is_code=True)
    assert stale(docstring) == ["module: nothing is called without_driver"]


def test_what_exists_is_not() -> None:
    mentions = (
        *(Reason.NOT_A_MULTIPLE.value, "WriterRuns.after", "holdfast_late_rows_total"),
        *("tests/docs/pages.py", "task_clock.py", "docs/verbs/NAME.md"),
        *("make check", "pip install '.[kafka]'", "holdfast plan APP.yaml --partitions a=1"),
        "python -m holdfast_cli.generated",
    )
    assert stale(Text("page", " ".join(f"`{one}`" for one in mentions), ROOT)) == []
