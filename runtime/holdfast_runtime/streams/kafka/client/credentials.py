"""Why: logins are in a Secret that is mounted, or in the environment, and never in a spec or in what Spark ships.

Each process reads them where it runs. Must not keep or show them.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from holdfast.errors import WorldChangeError
from holdfast.spec.streams import System
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings


class SecretMissingError(WorldChangeError):
    """A Secret the spec names is not where this process looks."""


def kafka_settings(system: System, secrets: Path | None, environment: Mapping[str, str] | None = None) -> KafkaSettings:
    """The settings of a system with its login: from its Secret's files, and over them from variables.

    `HOLDFAST_KAFKA__EVENTS__SASL_PASSWORD` is `sasl.password` of the system `events`.
    """
    variables = _from_environment(system.name, os.environ if environment is None else environment)
    name = None if system.kafka is None else system.kafka.secret_name
    return KafkaSettings.of(system, {**_from_files(system.name, name, secrets, variables), **variables})


def _from_files(system: str, secret: str | None, secrets: Path | None, variables: Mapping[str, str]) -> dict[str, str]:
    if secret is None:
        return {}
    folder = None if secrets is None else secrets / secret
    if folder is None or not folder.is_dir():
        if variables:
            return {}
        message = (
            f"Kafka system {system}: secretName is {secret}, but there is no folder {folder or secret} with its "
            f"entries; put them there, one file each, or set variables like {_prefix(system)}SASL_PASSWORD"
        )
        raise SecretMissingError(message)
    # What begins with a dot is how Kubernetes changes all files at once.
    files = (path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith("."))
    return {path.name: path.read_text(encoding="utf-8").rstrip("\n") for path in files}


def _from_environment(system: str, environment: Mapping[str, str]) -> dict[str, str]:
    prefix = _prefix(system)
    return {
        name.removeprefix(prefix).lower().replace("_", "."): value
        for name, value in environment.items()
        if name.startswith(prefix)
    }


def _prefix(system: str) -> str:
    return f"HOLDFAST_KAFKA__{system.upper().replace('-', '_')}__"
