"""Where a login comes from: files of a Secret, and over them variables of the environment."""

from pathlib import Path

import pytest

from holdfast.errors import WorldChangeError
from holdfast.spec.streams import KafkaSystem, System
from holdfast_runtime.streams.kafka.client.settings import kafka_settings
from tests.error_codes import has_code

SYSTEM = System(name="ad-events", kafka=KafkaSystem(bootstrap_servers="kafka:9092", secret_name="kafka-auth"))  # noqa: S106
VARIABLES = {"HOLDFAST_KAFKA__AD_EVENTS__SASL_PASSWORD": "of a variable", "HOLDFAST_KAFKA__OTHER__SASL_PASSWORD": "no"}


def secret(folder: Path) -> Path:
    """As Kubernetes mounts it: entries beside hidden ones by which it changes all at once."""
    (folder / "kafka-auth" / "..data").mkdir(parents=True)
    (folder / "kafka-auth" / "sasl.username").write_text("reader\n")
    (folder / "kafka-auth" / "sasl.password").write_text("of a file")
    return folder


def test_entries_are_settings_and_variables_count_over_them(tmp_path: Path) -> None:
    files = kafka_settings(SYSTEM, secret(tmp_path), {})
    assert files.given == {"sasl.username": "reader", "sasl.password": "of a file"}
    settings = kafka_settings(SYSTEM, tmp_path, VARIABLES)
    assert settings.given == {"sasl.username": "reader", "sasl.password": "of a variable"}
    assert "of a" not in repr(settings)


def test_a_missing_secret_is_said_with_cures_unless_variables_suffice(tmp_path: Path) -> None:
    with pytest.raises(
        WorldChangeError,
        match=r"secretName is kafka-auth.*HOLDFAST_KAFKA__AD_EVENTS__SASL_PASSWORD",
        check=has_code("SecretMissingError"),
    ):
        kafka_settings(SYSTEM, tmp_path, {})
    assert kafka_settings(SYSTEM, None, VARIABLES).given == {"sasl.password": "of a variable"}
