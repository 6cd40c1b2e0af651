"""The settings of the Kafka client that a StreamApp and its Secret may give, and to which process.

Settings come from whoever writes an app; some load a library, run a program, read a file or fetch an address, in the
process that was given them. So what may be given is listed, for two kinds of process: the app's own pods, where the
app's code runs anyway, and who asks brokers in the name of others: the operator, and `holdfast plan`, which runs on
files of a pull request. What no list has is refused, also what a newer client brings. Must not import the client,
nor let a value into a message: any of them may be a password.
"""

import re
from collections.abc import Collection, Mapping

from holdfast.suggest import near_miss

_WORDS = str.split

ASKING = {
    "the encryption of the connection, from texts alone": _WORDS(
        "security.protocol ssl.ca.pem ssl.certificate.pem ssl.key.pem ssl.key.password ssl.cipher.suites"
        " enable.ssl.certificate.verification ssl.endpoint.identification.algorithm"
    ),
    "a login by name and password": _WORDS("sasl.mechanism sasl.mechanisms sasl.username sasl.password"),
    "how the client is called, by which brokers limit it, and which addresses it takes": _WORDS(
        "client.id broker.address.family"
    ),
}
"""Why -> settings by which the login of who asks for others goes."""

_TOKENS = "use SCRAM: no token is fetched or made for an app by who asks in its name"
_TICKETS = "use SCRAM: kinit, which this takes, is run for no app by who asks in its name"
OF_THE_POD = {
    "ssl.ca.location": "put its text into the Secret secretName as ssl.ca.pem",
    "ssl.certificate.location": "put its text into the Secret secretName as ssl.certificate.pem",
    "ssl.key.location": "put its text into the Secret secretName as ssl.key.pem",
    "ssl.keystore.location": "put its content into the Secret secretName as ssl.certificate.pem and ssl.key.pem",
    "ssl.keystore.password": "use ssl.certificate.pem, ssl.key.pem and ssl.key.password",
    "ssl.crl.location": "leave it out",
    **dict.fromkeys(
        _WORDS(
            "sasl.kerberos.service.name sasl.kerberos.principal sasl.kerberos.keytab"
            " sasl.kerberos.min.time.before.relogin"
        ),
        _TICKETS,
    ),
    **dict.fromkeys(
        _WORDS(
            "https.ca.location https.ca.pem enable.sasl.oauthbearer.unsecure.jwt sasl.oauthbearer.config"
            " sasl.oauthbearer.method sasl.oauthbearer.client.id sasl.oauthbearer.client.secret"
            " sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret"
            " sasl.oauthbearer.scope sasl.oauthbearer.extensions sasl.oauthbearer.token.endpoint.url"
            " sasl.oauthbearer.sub.claim.name sasl.oauthbearer.grant.type sasl.oauthbearer.metadata.authentication.type"
            " sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.file"
            " sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase"
            " sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.assertion.jwt.template.file"
            " sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds"
            " sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include"
            " sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub"
        ),
        _TOKENS,
    ),
}
"""Settings of a login that the app's own pods may have, with files, tickets and tokens -> the cure for who asks."""

NOT_FOR_ASKING = {
    "how the client connects, and how long it waits": _WORDS(
        "socket.timeout.ms socket.blocking.max.ms socket.send.buffer.bytes socket.receive.buffer.bytes"
        " socket.keepalive.enable socket.nagle.disable socket.max.fails socket.connection.setup.timeout.ms"
        " connections.max.idle.ms broker.address.ttl client.dns.lookup client.rack reconnect.backoff.jitter.ms"
        " reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms"
        " max.in.flight.requests.per.connection max.in.flight api.version.request api.version.request.timeout.ms"
        " api.version.fallback.ms broker.version.fallback enable.random.seed"
    ),
    "which curves and signatures an encrypted connection takes": _WORDS("ssl.curves.list ssl.sigalgs.list"),
    "when the client asks for topics": _WORDS(
        "metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms metadata.max.age.ms"
        " topic.metadata.refresh.interval.ms topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.fast.cnt"
        " topic.metadata.refresh.sparse topic.metadata.propagation.max.ms topic.blacklist allow.auto.create.topics"
    ),
    "what the client logs and counts": _WORDS(
        "debug log_level log.thread.name log.connection.close statistics.interval.ms enable.metrics.push"
    ),
    "how much is read at once": _WORDS(
        "message.max.bytes message.copy.max.bytes receive.message.max.bytes queued.min.messages"
        " queued.max.messages.kbytes fetch.wait.max.ms fetch.queue.backoff.ms fetch.message.max.bytes"
        " max.partition.fetch.bytes fetch.max.bytes fetch.min.bytes fetch.error.backoff.ms check.crcs max.poll.records"
        " consume.callback.max.messages"
    ),
    "how much is written at once, and when": _WORDS(
        "queue.buffering.max.messages queue.buffering.max.kbytes queue.buffering.max.ms linger.ms"
        " queue.buffering.backpressure.threshold compression.codec compression.type compression.level"
        " batch.num.messages batch.size sticky.partitioning.linger.ms message.send.max.retries retries"
        " request.required.acks acks request.timeout.ms message.timeout.ms delivery.timeout.ms queuing.strategy"
        " partitioner transaction.timeout.ms"
    ),
    "what Holdfast sets itself wherever it matters": _WORDS(
        "group.id group.instance.id group.protocol group.protocol.type group.remote.assignor isolation.level"
        " auto.offset.reset enable.partition.eof enable.auto.commit auto.commit.enable auto.commit.interval.ms"
        " enable.auto.offset.store partition.assignment.strategy session.timeout.ms heartbeat.interval.ms"
        " coordinator.query.interval.ms max.poll.interval.ms share.acknowledgement.mode transactional.id"
        " enable.idempotence enable.gapless.guarantee delivery.report.only.error produce.offset.report"
    ),
}
"""What -> settings that the app's own pods may have, and that say nothing to who only asks for partition counts."""

REFUSED = {
    "is set by Holdfast and can't be given": _WORDS("bootstrap.servers metadata.broker.list default.topic.config"),
    "takes a function, which no text is": _WORDS(
        "logger error_cb throttle_cb stats_cb log_cb oauth_cb background_event_cb socket_cb connect_cb closesocket_cb"
        " open_cb resolve_cb consume_cb rebalance_cb offset_commit_cb dr_cb dr_msg_cb partitioner_cb msg_order_cmp"
        " ssl.certificate.verify_cb oauthbearer_token_refresh_cb on_commit on_delivery"
    ),
    "takes what only a program can give": _WORDS(
        "opaque default_topic_conf interceptors ssl_key ssl_certificate ssl_ca ssl_engine_callback_data"
        " builtin.features enabled_events log.queue internal.termination.signal"
    ),
    "would load a library into the process that is told, or run a program there": _WORDS(
        "plugin.library.paths sasl.kerberos.kinit.cmd ssl.engine.location ssl.engine.id ssl.providers"
    ),
    "keeps offsets in files, where Holdfast does not look": _WORDS(
        "offset.store.method offset.store.path offset.store.sync.interval.ms"
    ),
    "names stores of Windows": _WORDS("ssl.ca.certificate.stores"),
}
"""What is wrong -> settings that nobody may give."""

_ASKED = frozenset(key for keys in ASKING.values() for key in keys)
_GIVEN = _ASKED | OF_THE_POD.keys() | {key for keys in NOT_FOR_ASKING.values() for key in keys}
_WRONG = {key: why for why, keys in REFUSED.items() for key in keys}

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_CHOICES = {
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "sasl.mechanism": MECHANISMS,
    "sasl.mechanisms": MECHANISMS,
    "enable.ssl.certificate.verification": ("TRUE", "FALSE"),
    "ssl.endpoint.identification.algorithm": ("HTTPS", "NONE"),
    "broker.address.family": ("ANY", "V4", "V6"),
}
"""What settings can be for who asks, in capitals."""
_FORMS = {
    # The client puts them into a shell's line.
    **dict.fromkeys(
        _WORDS("sasl.kerberos.service.name sasl.kerberos.principal sasl.kerberos.keytab"),
        (re.compile(r"[\w./@-]*", re.ASCII), "has only letters, digits and the characters . / @ - _"),
    ),
    # The client would read a file:// too.
    "sasl.oauthbearer.token.endpoint.url": (re.compile(r"https?://.*"), "is an address that begins with https://"),
}


def unacceptable_name(key: str) -> str | None:
    """What is wrong with giving a setting at all, to whatever process; None: nothing."""
    if key in _GIVEN:
        return None
    return f'"{key}" {_WRONG.get(key) or "is no setting that can be given" + near_miss(key, _GIVEN)}'


def unacceptable(config: Mapping[str, str]) -> str | None:
    """What is wrong with a config for the app's own pods; None: their clients may see it."""
    for key, value in sorted(config.items()):
        fault = unacceptable_name(key)
        if fault is not None:
            return fault
        form = _FORMS.get(key)
        if form is not None and not form[0].fullmatch(value):
            return f'"{key}" {form[1]}'
    return None


def unacceptable_when_asking(config: Mapping[str, str]) -> str | None:
    """What is wrong with a config for who asks brokers in the name of others; None: `asking` has what it needs."""
    fault = unacceptable(config)
    if fault is not None:
        return fault
    for key, value in sorted(config.items()):
        if key in OF_THE_POD and not _is_trust_of_the_system(key, value):
            return f'"{key}" is for the pods of the app alone; {OF_THE_POD[key]}'
        if key in _CHOICES and value.upper() not in _CHOICES[key]:
            return f'"{key}" is one of {", ".join(_CHOICES[key])} for who asks in the name of an app'
    needed = {"sasl.username", "sasl.password"} if logs_in(config) else set()
    missing = sorted(needed - config.keys())
    if logs_in(config) and not config.keys() & {"sasl.mechanism", "sasl.mechanisms"}:
        missing.insert(0, "sasl.mechanism")
    return f"security.protocol asks for a login, which needs {', '.join(missing)}" if missing else None


def asking(config: Mapping[str, str]) -> dict[str, str]:
    """What who asks needs of a config; the rest is for clients that read and write."""
    return {key: value for key, value in config.items() if key in _ASKED}


def logs_in(config: Mapping[str, str]) -> bool:
    """Whether the connection begins with a login by SASL."""
    return config.get("security.protocol", "").upper().startswith("SASL_")


def _is_trust_of_the_system(key: str, path: str) -> bool:
    """Where a system has the certificates it trusts, which whoever asks has too."""
    trusted = path.startswith(("/etc/ssl/", "/etc/pki/")) and ".." not in path.split("/")
    return key == "ssl.ca.location" and (path == "probe" or trusted)


def without_values(text: str, config: Mapping[str, str]) -> str:
    """A text of the client with every value of the config blanked."""
    for value in sorted(filter(None, config.values()), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "***", text)
    return text


def login_keys(config: Collection[str]) -> str:
    """The keys that decide about the login, for a message that asks to correct them."""
    return ", ".join(sorted(key for key in config if key.startswith(("sasl.", "security.", "ssl."))))
