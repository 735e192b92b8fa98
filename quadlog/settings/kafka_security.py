"""How clients of a Kafka prove who they are, and which broker they believe: settings `kafka-…` of masters and workers.

The names are Kafka's own, see "Security" in Kafka's documentation.  A peer's settings override those of the master for
the Kafka of that peer's data centre.
"""

from __future__ import annotations

import os
from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotation
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, SecretStr

from quadlog.settings.environment import kebab, variable

PREFIX: Final = "kafka_"
PEM: Final = "-----BEGIN "
ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""Java's system property with the token servers that Kafka's own programs may ask."""
_LOGIN: Final = "org.apache.kafka.common.security"
_ESCAPES: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
_TOKEN_LOGIN: Final = f"{_LOGIN}.oauthbearer.OAuthBearerLoginCallbackHandler"


class SecurityProtocol(StrEnum):
    """`security.protocol` of Kafka."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class SaslMechanism(StrEnum):
    """`sasl.mechanism` of Kafka."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


class KafkaSecuritySettings(BaseModel):
    """The settings, as they are given; None: not given."""

    kafka_security_protocol: SecurityProtocol | None = None
    """Protocol of this client.  Default: PLAINTEXT."""
    kafka_ssl_ca: str | None = None
    """PEM, or a file of it: certificates that sign those of the brokers.  Default: those of the system."""
    kafka_ssl_certificate: str | None = None
    """PEM, or a file of it: certificate of this client, with those that sign it."""
    kafka_ssl_key: SecretStr | None = None
    """PEM (PKCS #8), or a file of it: its private key."""
    kafka_ssl_key_password: SecretStr | None = None
    """Password of that key."""
    kafka_sasl_mechanism: SaslMechanism | None = None
    """How the client logs in, with a SASL protocol."""
    kafka_sasl_username: str | None = None
    """User, for PLAIN and SCRAM."""
    kafka_sasl_password: SecretStr | None = None
    """Password of that user."""
    kafka_oauth_token_url: str | None = None
    """Token endpoint of the identity provider, for OAUTHBEARER with client credentials."""
    kafka_oauth_client_id: str | None = None
    """Client id there."""
    kafka_oauth_client_secret: SecretStr | None = None
    """Secret of that client."""
    kafka_oauth_scope: str | None = None
    """Scope that is asked for."""

    def credentials(self, default: KafkaSecuritySettings | None = None) -> KafkaCredentials:
        """Return what a client needs, completed by the settings in `default`.

        A user and its password are taken from one of the two, and so are a certificate, its key and its password:
        no Kafka is told the secrets of another one because half of its own are missing.

        Raises:
            ValueError: a setting is missing, has no effect, or its file cannot be read.

        """
        own = self._given()
        inherited = {} if default is None else default._given()  # noqa: SLF001 - of the same class
        others = {name for group in _TOGETHER if group & own.keys() for name in group}
        values = {name: value for name, value in inherited.items() if name not in others} | own
        protocol = values.get("kafka_security_protocol", SecurityProtocol.PLAINTEXT)
        mechanism = values.get("kafka_sasl_mechanism")
        used = _used(protocol, mechanism)
        for name in own:
            if name not in used:
                at = f"{kebab('kafka_security_protocol')} {protocol}" + (
                    f" and {mechanism}" if mechanism else ""
                )
                raise ValueError(f"{kebab(name)} has no effect with {at}: correct one of them")
        _need(values, protocol, mechanism)
        return KafkaCredentials(
            protocol=protocol,
            values={name: _text(name, values[name]) for name in sorted(used & values.keys())},
        )

    def _given(self) -> dict[str, Any]:
        names = KafkaSecuritySettings.model_fields
        found = {name: value for name in names if (value := getattr(self, name)) is not None}
        for name, value in found.items():
            if not _shown(value).strip():
                raise ValueError(f"{kebab(name)} is empty: give it a value, or take it out")
        return found


SECURITY: Final = frozenset(KafkaSecuritySettings.model_fields)
_TLS: Final = frozenset(name for name in SECURITY if name.startswith(f"{PREFIX}ssl_"))
_OAUTH: Final = frozenset(name for name in SECURITY if name.startswith(f"{PREFIX}oauth_"))
_USER: Final = frozenset({"kafka_sasl_username", "kafka_sasl_password"})
_PAIR: Final = frozenset({"kafka_ssl_certificate", "kafka_ssl_key"})
_TOGETHER: Final = (
    _USER,
    _PAIR | {"kafka_ssl_key_password"},
    frozenset({"kafka_oauth_client_id", "kafka_oauth_client_secret"}),
)
_FILES: Final = {
    "kafka_ssl_ca": ("CERTIFICATE",),
    "kafka_ssl_certificate": ("CERTIFICATE",),
    "kafka_ssl_key": ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"),
}
"""What a file in PEM has to contain, by setting."""
_OPTIONAL: Final = frozenset({"kafka_oauth_scope"})


def _used(protocol: SecurityProtocol, mechanism: SaslMechanism | None) -> frozenset[str]:
    """Return the settings that have an effect."""
    used = {"kafka_security_protocol"}
    if protocol.endswith("SSL"):
        used |= _TLS
    if protocol.startswith("SASL"):
        used |= {"kafka_sasl_mechanism"} | (_OAUTH if mechanism is SaslMechanism.OAUTHBEARER else _USER)
    return frozenset(used)


def _need(values: Mapping[str, Any], protocol: SecurityProtocol, mechanism: SaslMechanism | None) -> None:
    """Check that nothing is missing.

    Raises:
        ValueError: names the missing settings.

    """
    missing: set[str] = set()
    if protocol.startswith("SASL"):
        needed = _OAUTH - _OPTIONAL if mechanism is SaslMechanism.OAUTHBEARER else _USER
        missing = {"kafka_sasl_mechanism", *(needed if mechanism else ())} - values.keys()
    if protocol.endswith("SSL") and values.keys() & (_PAIR | {"kafka_ssl_key_password"}):
        missing |= _PAIR - values.keys()
    if missing:
        names = ", ".join(map(kebab, sorted(missing)))
        raise ValueError(f"{names} is needed with {kebab('kafka_security_protocol')} {protocol}: add it")


def _text(name: str, value: object) -> str:
    """Return the text of a setting; of a file, its content.

    Raises:
        ValueError: the file cannot be read, or is not PEM.

    """
    text = _shown(value)
    if name not in _FILES:
        return text
    pem = text
    if not text.lstrip().startswith(PEM):
        try:
            pem = Path(text).read_text("utf-8")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not PEM"
            shown = "the file" if name == "kafka_ssl_key" else text
            raise ValueError(f"{kebab(name)}: {shown} cannot be read: {reason}") from None
    if not any(f"{PEM}{label}-----" in pem for label in _FILES[name]):
        hint = "; `openssl pkcs8 -topk8` writes a key so" if name == "kafka_ssl_key" else ""
        lines = " or ".join(f"{PEM}{label}-----" for label in _FILES[name])
        raise ValueError(f"{kebab(name)} is not what is needed: it has no line {lines}{hint}")
    return pem


def _shown(value: object) -> str:
    """Return the text of a setting, also of a secret one."""
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCredentials:
    """Complete and checked; what is in files was read."""

    protocol: SecurityProtocol
    values: Mapping[str, str]
    """Text of each setting that has an effect, by field."""

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"KafkaCredentials({self.protocol})"

    @property
    def mechanism(self) -> str:
        """Mechanism of SASL; empty without SASL."""
        return self.values.get("kafka_sasl_mechanism", "")

    def librdkafka(self) -> dict[str, str]:
        """Return the properties of a client of librdkafka."""
        if self.protocol is SecurityProtocol.PLAINTEXT:
            return {}
        named = {
            "kafka_ssl_ca": "ssl.ca.pem",
            "kafka_ssl_certificate": "ssl.certificate.pem",
            "kafka_ssl_key": "ssl.key.pem",
            "kafka_ssl_key_password": "ssl.key.password",
            "kafka_sasl_mechanism": "sasl.mechanism",
            "kafka_sasl_username": "sasl.username",
            "kafka_sasl_password": "sasl.password",
            "kafka_oauth_token_url": "sasl.oauthbearer.token.endpoint.url",
            "kafka_oauth_client_id": "sasl.oauthbearer.client.id",
            "kafka_oauth_client_secret": "sasl.oauthbearer.client.secret",
            "kafka_oauth_scope": "sasl.oauthbearer.scope",
        }
        oidc = {"sasl.oauthbearer.method": "oidc"} if self.mechanism == SaslMechanism.OAUTHBEARER else {}
        return (
            {"security.protocol": self.protocol}
            | oidc
            | {named[name]: text for name, text in self.values.items() if name in named}
        )

    def java(self) -> dict[str, str]:
        """Return the properties of a client in Java; certificates and keys are in them, not in files."""
        if self.protocol is SecurityProtocol.PLAINTEXT:
            return {}
        found: dict[str, str] = {"security.protocol": self.protocol}
        values = self.values
        if ca := values.get("kafka_ssl_ca"):
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca}
        if certificate := values.get("kafka_ssl_certificate"):
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": certificate,
                "ssl.keystore.key": values["kafka_ssl_key"],
            }
            if password := values.get("kafka_ssl_key_password"):
                found["ssl.key.password"] = password
        if self.mechanism:
            found |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self._login()}
        if self.mechanism == SaslMechanism.OAUTHBEARER:
            found["sasl.login.callback.handler.class"] = _TOKEN_LOGIN
            found["sasl.oauthbearer.token.endpoint.url"] = values["kafka_oauth_token_url"]
        return found

    def java_options(self) -> tuple[str, ...]:
        """Return the options of a Java that runs such clients."""
        url = self.values.get("kafka_oauth_token_url")
        return (f"-D{ALLOWED_URLS}={url}",) if url else ()

    def _login(self) -> str:
        """Return the line that Java's login modules read."""
        values = self.values
        if self.mechanism == SaslMechanism.OAUTHBEARER:
            module = "oauthbearer.OAuthBearerLoginModule"
            options = {
                "clientId": values["kafka_oauth_client_id"],
                "clientSecret": values["kafka_oauth_client_secret"],
            } | ({"scope": scope} if (scope := values.get("kafka_oauth_scope")) else {})
        else:
            module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
            options = {"username": values["kafka_sasl_username"], "password": values["kafka_sasl_password"]}
        written = " ".join(f"{name}={_quoted(text)}" for name, text in options.items())
        return f"{_LOGIN}.{module} required {written};"

    def environment(self, directory: Path, inherited: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a command that reads this Kafka: secrets are not in its arguments.

        `directory` gets a file of each value, that only this user may read: a variable has at most 128 KiB.
        `inherited`: its other variables; None: those of this process.

        Raises:
            OSError: a file cannot be written.

        """
        names = {variable(kebab(name)) for name in SECURITY}
        others = os.environ if inherited is None else inherited
        environment = {name: text for name, text in others.items() if name.removesuffix("_FILE") not in names}
        for name, text in self.values.items():
            file = directory / kebab(name)
            file.touch(mode=0o600)
            file.write_text(text, "utf-8")
            environment[f"{variable(kebab(name))}_FILE"] = str(file)
        return environment


def _quoted(text: str) -> str:
    r"""Return a value in the syntax of Java's login configuration.

    >>> print(_quoted('a"b'))
    "a\"b"
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def java_properties(values: Mapping[str, str]) -> str:
    r"""Return the text of a file of Java properties, in ASCII.

    >>> print(java_properties({"a.b": " x\ny\\z", "c": "ä"}), end="")
    a.b=\ x\ny\\z
    c=\u00e4
    """
    return "".join(f"{name}={_escaped(text)}\n" for name, text in values.items())


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    chars = (chr(int.from_bytes(units[at : at + 2])) for at in range(0, len(units), 2))
    written = "".join(_ESCAPES.get(char, char if char.isascii() else f"\\u{ord(char):04x}") for char in chars)
    return f"\\{written}" if written.startswith(" ") else written
