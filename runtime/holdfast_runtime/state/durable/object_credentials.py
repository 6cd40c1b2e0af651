"""Keys in the shared credentials file, for the client that does not read it.

Where the environment has no keys, the order of the AWS SDK is: this file, then a web identity, a container's and an
instance's role. The client for writes knows all but the file. Other ways that a profile may name (a program, a sign-on)
are refused by name: the client for reads would use them, and two clients must not be two users. Must not keep keys.
"""

import os
from collections.abc import Callable
from configparser import ConfigParser, Error
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast_runtime.state.errors import CheckpointUnavailableError

if TYPE_CHECKING:  # it is not there while a program runs
    from obstore.store import S3Credential

_READ_AGAIN = timedelta(minutes=10)
"""Keys are asked for anew five minutes before, as a file may be replaced."""
_KEYS = ("aws_access_key_id", "aws_secret_access_key")
_REFUSED = ("credential_process", "sso_session", "sso_account_id")


def keys_of_profile() -> Callable[[], "S3Credential"] | None:
    """Return what reads the keys of the profile in use; None if there are none, or the environment has some."""
    if os.environ.get("AWS_ACCESS_KEY_ID") or _profile() is None:
        return None
    return _read


def _read() -> "S3Credential":
    profile = _profile()
    if profile is None:
        message = "the keys of the profile are gone from the shared credentials file: put them back"
        raise CheckpointUnavailableError(message)
    return {
        "access_key_id": profile[_KEYS[0]],
        "secret_access_key": profile[_KEYS[1]],
        "token": profile.get("aws_session_token"),
        "expires_at": datetime.now(UTC) + _READ_AGAIN,
    }


def _profile() -> dict[str, str] | None:
    """Return what the profile in use says if it has keys; raise `CheckpointUnavailableError` if it can't be used."""
    name = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"
    settings: dict[str, str] = {}
    places = {
        Path(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config"): (f"profile {name}", name),
        Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"): (name,),
    }
    for path, sections in places.items():
        file = ConfigParser(interpolation=None, default_section="", strict=False)
        try:
            file.read(path.expanduser())
        except RuntimeError:
            continue  # the user of this process has no home
        except (Error, ValueError, OSError) as error:
            # The text of the error may hold a line of the file.
            message = f"{path} can't be read as a file of AWS profiles ({type(error).__name__}): mend it or remove it"
            raise CheckpointUnavailableError(message) from None
        for section in sections:
            if file.has_section(section):
                settings |= dict(file[section])
    if all(settings.get(key) for key in _KEYS):
        return settings
    refused = [setting for setting in _REFUSED if setting in settings]
    if refused:
        message = (
            f"AWS profile {name} has {refused[0]}, which this release can't use for checkpoints: give the pod "
            f"aws_access_key_id and aws_secret_access_key, or a role (docs/state.md#object-stores)"
        )
        raise CheckpointUnavailableError(message)
    return None
