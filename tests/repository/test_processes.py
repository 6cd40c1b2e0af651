"""Which processes are found below one."""

import subprocess

from tests.processes import processes_below


def test_a_command_that_a_jvm_starts_is_no_second_jvm() -> None:
    copied = ("java", "-c", "(echo copied; read); true")
    forking = ("python", "-c", "(echo copied; read); true")
    assert [_processes(copied), _processes(forking)] == [1, 2]


def _processes(command: tuple[str, ...]) -> int:
    """How many are found of a process that has forked a copy of itself."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, executable="/bin/bash", stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        pids = processes_below(process.pid, command[2])
        process.stdin.close()
    return len(pids)
