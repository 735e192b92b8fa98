"""Settings with which clients log in to Kafka: complete or refused, and never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from quadlog.broker.connection import log_in
from quadlog.errors import SetupError
from quadlog.settings import MasterSettings
from quadlog.settings.common import kafka_credentials
from quadlog.settings.kafka_security import KafkaSecuritySettings, java_properties

if TYPE_CHECKING:
    from pathlib import Path

CA = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"
KEY = CA.replace("CERTIFICATE", "PRIVATE KEY")
SECRET = 'p"w\\1'
SCRAM = {
    "kafka_security_protocol": "SASL_SSL",
    "kafka_ssl_ca": CA,
    "kafka_sasl_mechanism": "SCRAM-SHA-512",
    "kafka_sasl_username": "u",
    "kafka_sasl_password": SECRET,
}
OAUTH = {
    "kafka_security_protocol": "SASL_SSL",
    "kafka_sasl_mechanism": "OAUTHBEARER",
    "kafka_oauth_token_url": "https://id/token",
    "kafka_oauth_client_id": "c",
    "kafka_oauth_client_secret": SECRET,
}
MASTER = {
    "QUADLOG_NODE_ID": "dc1-m1",
    "QUADLOG_DC": "dc1",
    "QUADLOG_DATA_DIR": "/d",
    "QUADLOG_PORT": "7001",
    "QUADLOG_KAFKA": "k1:9092",
    "QUADLOG_MASTER_URL": "http://m1",
    "QUADLOG_PEER__2__ID": "dc2-m1",
    "QUADLOG_PEER__2__DC": "dc2",
    "QUADLOG_PEER__2__URL": "http://m2",
    "QUADLOG_PEER__2__KAFKA": "k2:9092",
}


def variables(values: dict[str, str], prefix: str = "QUADLOG_") -> dict[str, str]:
    return {prefix + name.upper(): text for name, text in values.items()}


def settings(**values: Any) -> KafkaSecuritySettings:  # noqa: ANN401 - of any type
    return KafkaSecuritySettings(**values)


def test_without_them_clients_speak_plainly() -> None:
    found = settings().credentials()
    assert (found.librdkafka(), found.java(), found.java_options()) == ({}, {}, ())


def test_a_password() -> None:
    found = settings(**SCRAM).credentials()
    assert found.librdkafka() == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.pem": CA,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": SECRET,
    }
    assert found.java() == {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CA,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="u" password="p\\"w\\\\1";',
    }
    plain = settings(**SCRAM | {"kafka_sasl_mechanism": "PLAIN"}).credentials().java()
    assert "plain.PlainLoginModule" in plain["sasl.jaas.config"]


def test_a_token() -> None:
    found = settings(**OAUTH).credentials()
    assert found.librdkafka()["sasl.oauthbearer.method"] == "oidc"
    assert found.librdkafka()["sasl.oauthbearer.client.secret"] == SECRET
    assert found.java()["sasl.oauthbearer.token.endpoint.url"] == "https://id/token"
    assert 'clientId="c" clientSecret="p\\"w\\\\1";' in found.java()["sasl.jaas.config"]
    assert found.java_options() == ("-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://id/token",)


def test_a_certificate_of_the_client(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text(KEY)
    given = {"kafka_security_protocol": "SSL", "kafka_ssl_certificate": CA, "kafka_ssl_key": str(key)}
    found = settings(**given, kafka_ssl_key_password=SECRET).credentials()
    assert found.librdkafka()["ssl.key.pem"] == key.read_text()
    assert found.java()["ssl.keystore.key"] == key.read_text()
    assert found.java()["ssl.key.password"] == SECRET


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"kafka_sasl_username": "u"},
            "kafka-sasl-username has no effect with kafka-security-protocol PLAINTEXT",
        ),
        ({"kafka_ssl_ca": CA}, "kafka-ssl-ca has no effect"),
        (SCRAM | {"kafka_oauth_scope": "s"}, "kafka-oauth-scope has no effect with .* and SCRAM-SHA-512"),
        (OAUTH | {"kafka_sasl_username": "u"}, "kafka-sasl-username has no effect with .* and OAUTHBEARER"),
        ({"kafka_security_protocol": "SASL_SSL"}, "kafka-sasl-mechanism is needed"),
        ({**SCRAM, "kafka_sasl_password": None}, "kafka-sasl-password is needed"),
        ({**OAUTH, "kafka_oauth_token_url": None}, "kafka-oauth-token-url is needed"),
        ({"kafka_security_protocol": "SSL", "kafka_ssl_certificate": CA}, "kafka-ssl-key is needed"),
        (
            {"kafka_security_protocol": "SSL", "kafka_ssl_ca": "/none"},
            "kafka-ssl-ca: /none cannot be read: No such",
        ),
        (
            {"kafka_security_protocol": "SSL", "kafka_ssl_ca": pytest.__file__},
            "has no line -----BEGIN CERTIFICATE",
        ),
        ({"kafka_security_protocol": "SSL", "kafka_ssl_ca": KEY}, "has no line -----BEGIN CERTIFICATE"),
        (
            {
                "kafka_security_protocol": "SSL",
                "kafka_ssl_certificate": CA,
                "kafka_ssl_key": KEY.replace("PRIVATE", "RSA PRIVATE"),
            },
            "kafka-ssl-key is not what is needed: .*openssl pkcs8 -topk8",
        ),
        (
            {"kafka_security_protocol": "SSL", "kafka_ssl_key_password": "x"},
            "kafka-ssl-certificate, kafka-ssl",
        ),
        (SCRAM | {"kafka_sasl_password": ""}, "kafka-sasl-password is empty"),
        (SCRAM | {"kafka_ssl_ca": " "}, "kafka-ssl-ca is empty"),
    ],
)
def test_what_is_missing_or_has_no_effect_is_an_error(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as raised:
        settings(**given).credentials()
    assert SECRET not in str(raised.value)


def test_what_no_client_can_use_is_an_error_before_there_is_one() -> None:
    """It looks like PEM, and is no certificate."""
    with pytest.raises(
        SetupError, match=r"read certificate .*ssl\.ca\.pem.*: correct the settings kafka-ssl-"
    ):
        log_in({"k1:9092": settings(kafka_security_protocol="SSL", kafka_ssl_ca=CA).credentials()})


def test_a_peers_kafka_is_another_one() -> None:
    """What a peer's settings do not give is as for the own Kafka."""
    own = MASTER | variables(SCRAM)
    same = MasterSettings.load(None, own).kafka_credentials
    assert same["k1:9092"] == same["k2:9092"]
    login = {"QUADLOG_PEER__2__KAFKA_SASL_USERNAME": "p", "QUADLOG_PEER__2__KAFKA_SASL_PASSWORD": "q"}
    other = MasterSettings.load(None, own | login).kafka_credentials
    theirs = {"sasl.username": "p", "sasl.password": "q"}
    assert other["k2:9092"].librdkafka() == same["k1:9092"].librdkafka() | theirs
    for half, text in login.items():
        with pytest.raises(SetupError, match=r"peer\.2: kafka-sasl-(username|password) is needed"):
            MasterSettings.load(None, own | {half: text})
    plain = own | {"QUADLOG_PEER__2__KAFKA_SECURITY_PROTOCOL": "PLAINTEXT"}
    assert MasterSettings.load(None, plain).kafka_credentials["k2:9092"].librdkafka() == {}
    with pytest.raises(SetupError, match=r"peer\.2: other settings have other credentials for k1:9092"):
        MasterSettings.load(None, plain | {"QUADLOG_PEER__2__KAFKA": "k1:9092"})
    with pytest.raises(SetupError, match=r"peer\.2: kafka-sasl-username has no effect"):
        MasterSettings.load(None, plain | {"QUADLOG_PEER__2__KAFKA_SASL_USERNAME": "u"})


def test_secrets_are_not_shown() -> None:
    found = MasterSettings.load(None, MASTER | variables(SCRAM))
    shown = f"{found!r} {found} {found.kafka_credentials!r} {found.model_dump()} {found.model_dump_json()}"
    assert SECRET not in shown
    with pytest.raises(SetupError) as raised:
        MasterSettings.load(None, MASTER | variables(SCRAM | {"kafka_sasl_mechanism": "MD5"}))
    assert SECRET not in str(raised.value)
    assert "kafka-sasl-mechanism" in str(raised.value)
    with pytest.raises(ValidationError) as wrong:
        settings(**SCRAM | {"kafka_sasl_mechanism": "MD5"})
    assert SECRET not in str(wrong.value)


def test_commands_inherit_them(tmp_path: Path) -> None:
    """A job gets what its node has, also of a settings file or of files with secrets; other variables stay.

    All of it is in files that only this user may read: certificates may be larger than a variable.
    """
    (tmp_path / "old").write_text("old\n")
    found = settings(**SCRAM | {"kafka_ssl_ca": CA * 3000}).credentials()
    inherited = {"QUADLOG_KAFKA_SASL_PASSWORD_FILE": str(tmp_path / "old"), "QUADLOG_LOG_LEVEL": "info"}
    passed = found.environment(tmp_path, inherited)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("kafka-*")} == dict.fromkeys(
        (name.replace("_", "-") for name in SCRAM), 0o600
    )
    assert max(map(len, passed.values())) < 1000
    assert passed["QUADLOG_LOG_LEVEL"] == "info"
    again = {name: text.rstrip("\n") for name, text in found.values.items()}
    assert kafka_credentials(passed).values == again
    del passed["QUADLOG_KAFKA_SASL_MECHANISM_FILE"]
    passed["QUADLOG_KAFKA_SASL_MECHANISM"] = SCRAM["kafka_sasl_mechanism"]
    assert kafka_credentials({}) == settings().credentials()
    with pytest.raises(SetupError, match="kafka-sasl-password is needed"):
        kafka_credentials({name: text for name, text in passed.items() if "PASSWORD" not in name})
    with pytest.raises(SetupError, match="QUADLOG_KAFKA_SASL_MECHANISM: Input should be"):
        kafka_credentials(passed | {"QUADLOG_KAFKA_SASL_MECHANISM": "MD5"})
    with pytest.raises(
        SetupError, match=r"QUADLOG_KAFKA_SASL_USER is no setting; do you mean QUADLOG_KAFKA_SASL_USER"
    ):
        kafka_credentials(passed | {"QUADLOG_KAFKA_SASL_USER": "u"})


def test_properties_are_written_as_java_reads_them() -> None:
    text = java_properties({"a": ' x=\\"\n', "b": "ä😀"})
    assert text == 'a=\\ x=\\\\"\\n\nb=\\u00e4\\ud83d\\ude00\n'
