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
_FILES = (".location", ".file", ".files", ".path", ".paths", ".keytab")
"""Keys with these ends name a file, also those of a client that is newer than this."""
_TRUST = frozenset({"ssl.ca.location", "https.ca.location"})
_INSTEAD = {
    key: f"put its text into the Secret secretName as {other}"
    for key, other in {
        "ssl.ca.location": "ssl.ca.pem",
        "https.ca.location": "https.ca.pem",
        "ssl.certificate.location": "ssl.certificate.pem",
        "ssl.key.location": "ssl.key.pem",
        "ssl.keystore.location": "ssl.certificate.pem and ssl.key.pem",
        "sasl.oauthbearer.assertion.private.key.file": "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.assertion.file": "sasl.oauthbearer.assertion.private.key.pem, which makes assertions",
    }.items()
}


def unacceptable(config: Collection[str]) -> str | None:
    """What is wrong with the keys of a config; None: the client may see it."""
    for key in sorted(config):
        if key in RESERVED_KEYS:
            return f'"{key}" is set by Holdfast and can\'t be given'
        if key in CODE_KEYS:
            return f'"{key}" would run code of the spec in the process that asks'
    return None


def unacceptable_for_others(config: Mapping[str, str]) -> str | None:
    """What is wrong with a config for a process that asks in the name of others; None: it may use it.

    The operator has files and an identity of its own, e.g. the token of its service account. An app that could name
    them would have them sent to brokers, or to a login, of its own choice.
    """
    for key, value in sorted(config.items()):
        if key.startswith("sasl.kerberos."):
            return f'"{key}" takes kinit and a keytab of the operator; use another sasl.mechanism'
        if key == "sasl.oauthbearer.metadata.authentication.type":
            return f'"{key}" would log in as the operator; use sasl.oauthbearer.method OIDC with a client of the app'
        if key == "sasl.oauthbearer.token.endpoint.url" and not value.startswith(("http://", "https://")):
            return f'"{key}" is an address that begins with https:// or http://'
        if key.endswith(_FILES) and not (key in _TRUST and _of_the_system(value)):
            return f'"{key}" would be read from the files of the operator; {_INSTEAD.get(key, "leave it out")}'
    return None


def _of_the_system(path: str) -> bool:
    """Where a system has the certificates it trusts."""
    return path == "probe" or (path.startswith(("/etc/ssl/", "/etc/pki/")) and ".." not in path.split("/"))


def without_values(text: str, config: Mapping[str, str]) -> str:
    """A text of the client with every value of the config blanked."""
    for value in sorted(filter(None, config.values()), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "***", text)
    return text


def login_keys(config: Collection[str]) -> str:
    """The keys that decide about the login, for a message that asks to correct them."""
    return ", ".join(sorted(key for key in config if key.startswith(("sasl.", "security.", "ssl."))))
