"""Why: a client that gets no answer goes on trying without a word; what it last said tells why, and whether to wait.

Must not let a value of the config into a message.
"""

from holdfast_runtime.streams.kafka.client.errors import (
    NOT_ENCRYPTED,
    NOT_REACHED,
    KafkaBusyError,
    KafkaLoginError,
    is_refused_login,
)
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings


class ConnectionState:
    """What the client of a process last said about its connections."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._last: tuple[int, str] | None = None
        self._answered = False

    def heard(self, code: int, text: str) -> None:
        """The client said something. That no broker is reached follows what says why, and says less."""
        if code != NOT_REACHED or self._last is None:
            self._last = code, text

    def answered(self) -> None:
        """A broker answered: what was said before is over."""
        self._answered, self._last = True, None

    def check(self) -> None:
        """Raise where waiting is of no use: the login was refused from the start.

        Later a broker that comes up may refuse for a moment what it will accept.
        """
        if not self._answered and self._last is not None and is_refused_login(self._last[0]):
            raise self.refused()

    def refused(self) -> KafkaLoginError:
        """The error for a login that is not accepted."""
        code, said = self._last or (0, "")
        text, broker = self._settings.without_values(said), f"the broker at {self._settings.bootstrap}"
        what = f"no encrypted connection to {broker}" if code == NOT_ENCRYPTED else f"{broker} refused the login"
        keys = self._settings.login_keys() or "security.protocol"
        return KafkaLoginError(
            f"Kafka system {self._settings.system}: {what}: {text}. Correct {keys} in the system's config or secret."
        )

    def silent(self, what: str, seconds: float) -> KafkaBusyError | KafkaLoginError:
        """The error for an answer that does not come."""
        if self._last is not None and is_refused_login(self._last[0]):
            return self.refused()
        last = f"; the Kafka client last said: {self._settings.without_values(self._last[1])}" if self._last else ""
        return KafkaBusyError(
            f"Kafka system {self._settings.system}: nothing about {what} came from {self._settings.bootstrap} "
            f"in {seconds:g} s{last}. It is tried again."
        )
