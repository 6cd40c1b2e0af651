"""Where a login is read: the files of a mounted Secret, overridden by variables of the environment.

Each process reads it where it runs, as logins are never in a spec or in what Spark ships. Any entry may be a password,
so none appears in a message. Must not know what the entries mean.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import WorldChangeError


@dataclass(frozen=True, slots=True)
class LoginPlace:
    """The Secret and the variables that hold the login of one system."""

    owner: str
    """What logs in, for messages: `Kafka system events`."""
    kind: str
    """The part of the variables' names that tells one kind of login from another: `KAFKA`."""
    system: str
    secret: str | None
    example: str
    """What the name of a useful variable ends with: `SASL_PASSWORD`."""

    @property
    def prefix(self) -> str:
        """What the names of its variables begin with."""
        return f"HOLDFAST_{self.kind}__{self.system.upper().replace('-', '_')}__"

    def entries(self, secrets: Path | None, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the login: `HOLDFAST_KAFKA__EVENTS__SASL_PASSWORD` overrides the file `sasl.password`."""
        variables = {
            name.removeprefix(self.prefix).lower().replace("_", "."): value
            for name, value in environment.items()
            if name.startswith(self.prefix)
        }
        return {**self._from_files(secrets, variables), **variables}

    def _from_files(self, secrets: Path | None, variables: Mapping[str, str]) -> dict[str, str]:
        if self.secret is None:
            return {}
        directory = None if secrets is None else secrets / self.secret
        if directory is None or not directory.is_dir():
            if variables:
                return {}
            message = (
                f"{self.owner}: secretName is {self.secret}, but there is no folder {directory or self.secret} with "
                f"its entries; put them there, one file each, or set variables like {self.prefix}{self.example}"
            )
            raise WorldChangeError(message, code="SecretMissingError")
        # Kubernetes uses names that begin with a dot to change all files at once.
        files = (path for path in sorted(directory.iterdir()) if path.is_file() and not path.name.startswith("."))
        return {path.name: path.read_text(encoding="utf-8").rstrip("\n") for path in files}
