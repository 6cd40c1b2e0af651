"""`holdfast completion`: real shells complete commands, options, values and reasons with the scripts."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from holdfast.reasons import Reason
from holdfast_cli.main import command_parser
from tests.cli.conftest import Holdfast
from tests.debian import ensure_program

SHELLS = ("bash", "zsh", "fish")
COMMANDS = sorted(re.findall("^    ([a-z]+)", command_parser().format_help(), re.MULTILINE))
ASKED = [
    ("holdfast ", COMMANDS),
    ("holdfast pl", ["plan"]),
    ("holdfast st", ["state", "status", "streams"]),
    ("holdfast state ", ["export", "get", "ls", "sql"]),
    ("holdfast tail --from", ["--from-beginning"]),
    ("holdfast plan --output ", ["dot", "json", "mermaid", "svg", "text"]),
    ("holdfast explain KeyT", ["KeyTypeMismatch"]),
    ("holdfast explain ", sorted(reason.value for reason in Reason)),
    ("holdfast plan ap", ["app.yaml"]),
    ("holdfast diff --sch", ["--schema"]),
    ("holdfast completion ", sorted(SHELLS)),
]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_in_the_script(shell: str, holdfast: Holdfast) -> None:
    script = holdfast("completion", shell)
    assert (script.code, script.err) == (0, "")
    assert [command for command in COMMANDS if command not in script.out] == []


def test_another_shell_is_refused(holdfast: Holdfast) -> None:
    refused = holdfast("completion", "tcsh")
    assert refused.code == 2
    assert "invalid choice: 'tcsh'" in refused.err


@pytest.mark.parametrize(("line", "candidates"), ASKED)
def test_bash_completes(line: str, candidates: list[str], holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "holdfast.sh").write_text(holdfast("completion", "bash").out)
    words = line.split(" ")
    array = " ".join(f"'{word}'" for word in words)
    program = f"""
    . ./holdfast.sh
    COMP_WORDS=({array}) COMP_CWORD={len(words) - 1} COMP_LINE='{line}' COMP_POINT={len(line)}
    complete -p holdfast >/dev/null
    _shtab_holdfast holdfast "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    assert _printed(tmp_path, "bash", "--norc", "-c", program) == candidates


@pytest.mark.parametrize(("line", "candidates"), ASKED)
def test_fish_completes(line: str, candidates: list[str], holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "holdfast.fish").write_text(holdfast("completion", "fish").out)
    printed = _printed(
        tmp_path, ensure_program("fish"), "--no-config", "-c", f"source holdfast.fish; complete -C '{line}'"
    )
    assert sorted({candidate.split("\t")[0] for candidate in printed}) == candidates


def test_zsh_takes_the_script(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "_holdfast").write_text(holdfast("completion", "zsh").out)
    program = f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -D -u; print $_comps[holdfast]"
    assert _printed(tmp_path, ensure_program("zsh"), "-f", "-c", program) == ["_holdfast"]
    assert _printed(tmp_path, ensure_program("zsh"), "-f", "-n", "_holdfast") == []


def _printed(folder: Path, *words: str) -> list[str]:
    environment = {**os.environ, "HOME": str(folder)}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return sorted(done.stdout.splitlines())
