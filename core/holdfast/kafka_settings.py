"""Why: what a spec may tell the Kafka client is decided once, for the operator, the command line and the workers.

Settings come from a StreamApp and a Secret, and the client runs in processes of Holdfast. Must not import the client,
nor let a value into a message: any of them may be a password.
"""

import re
from collections.abc import Collection, Mapping

RESERVED_KEYS = frozenset(
    {
        "bootstrap.servers",
        "metadata.broker.list",
        "default.topic.config",
        "logger",
        "error_cb",
        "stats_cb",
        "throttle_cb",
        "oauth_cb",
    }
)
"""Addresses come from `bootstrapServers`, and no text can be a callback or a dictionary."""
CODE_KEYS = frozenset({"plugin.library.paths", "sasl.kerberos.kinit.cmd", "ssl.engine.location"})
"""These run a program or load a library in whoever asks: with them a StreamApp could take over the operator."""


def unacceptable(config: Collection[str]) -> str | None:
    """What is wrong with the keys of a config; None: the client may see it."""
    for key in sorted(config):
        if key in RESERVED_KEYS:
            return f'"{key}" is set by Holdfast and can\'t be given'
        if key in CODE_KEYS:
            return f'"{key}" would run code of the spec in the process that asks'
    return None


def without_values(text: str, config: Mapping[str, str]) -> str:
    """A text of the client with every value of the config blanked."""
    for value in sorted(filter(None, config.values()), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "***", text)
    return text


def login_keys(config: Collection[str]) -> str:
    """The keys that decide about the login, for a message that asks to correct them."""
    return ", ".join(sorted(key for key in config if key.startswith(("sasl.", "security.", "ssl."))))
