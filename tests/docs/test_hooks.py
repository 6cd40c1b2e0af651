"""The hooks before a commit run what `make check` runs."""

import re
from io import StringIO

from ruamel.yaml import YAML

from tests.docs.pages import ROOT


def test_the_hooks_are_the_local_commands_of_make_check() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    sources = re.findall(r"^SOURCES := (.*)$", makefile, re.MULTILINE)[0]
    check = re.findall(r"^check:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[0]
    commands = [
        line.strip().replace("$(BIN)", ".venv/bin").replace("$(SOURCES)", sources) for line in check.splitlines()
    ]
    tree = YAML(typ="safe", pure=True).load(StringIO((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")))
    assert [repo["repo"] for repo in tree["repos"]] == ["local"]
    hooks = tree["repos"][0]["hooks"]
    assert {hook["language"] for hook in hooks} == {"system"}
    # Of ruff, a hook is given the changed files, and formats what `make check` only looks at.
    without_sources = [
        re.sub(r"( --check)? " + re.escape(sources), "", command) if "/ruff " in command else command
        for command in commands
    ]
    assert [hook["entry"] for hook in hooks] == without_sources
