"""The broker and the registry that people try apps with: there until Ctrl-C, and refused where something listens."""

import signal
import subprocess
import sys

import pytest

from tests.kafka import trial
from tests.kafka.broker import Broker, free_ports
from tests.waiting import patience

pytestmark = pytest.mark.kafka


def test_a_trial_answers_until_ctrl_c() -> None:
    broker_port, registry_port = free_ports(2)
    code = f"from tests.kafka import trial; raise SystemExit(trial.main({broker_port}, {registry_port}))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = [line for _, line in zip(range(4), process.stdout, strict=False)]
        assert printed[1:3] == [
            f"broker    localhost:{broker_port}\n",
            f"registry  http://localhost:{registry_port}/apis/ccompat/v7\n",
        ]
        process.send_signal(signal.SIGINT)
        assert process.wait(patience(30)) == 0


def test_a_trial_takes_no_port_that_is_used(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    port = int(broker.bootstrap.rpartition(":")[2])
    assert trial.main(port, port) == 1
    assert f"something listens at port {port} already" in capsys.readouterr().err
