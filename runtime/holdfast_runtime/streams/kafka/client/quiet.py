"""Why: librdkafka prints what it thinks to stderr unless it has a logger; what matters of it comes as errors too.

Must not show anything: a log of settings could hold passwords.
"""

import logging

QUIET = logging.Logger("holdfast.kafka")
QUIET.addHandler(logging.NullHandler())
