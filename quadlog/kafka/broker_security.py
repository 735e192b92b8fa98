"""A broker that speaks TLS, asks each client for a password, and lets each user do what ACLs allow."""

from __future__ import annotations

import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quadlog.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quadlog.kafka.java import Java

ADMIN: Final = "admin"
"""The user that may do everything; the broker itself is one of its clients."""
MECHANISM: Final = "SCRAM-SHA-512"
PROTOCOL: Final = "SASL_SSL"
_KEYSTORE: Final = "keystore"
_NAME: Final = "CN=quadlog"
_DAYS: Final = 3650


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSecurity:
    """A certificate and the users of one broker, or of several; kept in a directory that only its owner reads.

    keystore.p12       private key and certificate
    ca.pem             the certificate, for clients
    passwords/<user>   of each user, and `keystore` of that file
    """

    directory: Path

    @property
    def ca(self) -> Path:
        """The certificate that clients believe."""
        return self.directory / "ca.pem"

    def password_file(self, user: str) -> Path:
        """Return the file with the password of a user, and nothing else."""
        return self.directory / "passwords" / user

    def password(self, user: str) -> str:
        """Return the password of a user."""
        return self.password_file(user).read_text("ascii")

    def prepare(self, java: Java, users: Iterable[str], hosts: str) -> None:
        """Make what is missing; a broker knows the users that it was formatted with.

        `hosts`: names and addresses of the brokers, such as `ip:127.0.0.1,dns:localhost`.

        Raises:
            SetupError: there is no keytool, or it fails.

        """
        (self.directory / "passwords").mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        for user in (*users, ADMIN, _KEYSTORE):
            file = self.password_file(user)
            if not file.exists():
                making = self.directory / f"{user}.new"
                making.touch(mode=0o600)
                making.write_text(secrets.token_urlsafe(24), "ascii")
                making.replace(file)
        if not self.ca.exists():
            self._make_certificate(java, hosts)

    def _make_certificate(self, java: Java, hosts: str) -> None:
        store, making = self.directory / "keystore.p12", self.ca.with_suffix(".new")
        store.unlink(missing_ok=True)
        shared = [
            "-keystore",
            str(store),
            "-storepass:file",
            str(self.password_file(_KEYSTORE)),
            "-alias",
            "broker",
        ]
        pair = ["-genkeypair", "-storetype", "PKCS12", "-keyalg", "RSA", "-keysize", "2048", "-dname", _NAME]
        for command in (
            [*pair, "-validity", str(_DAYS), "-ext", f"san={hosts}", *shared],
            ["-exportcert", "-rfc", "-file", str(making), *shared],
        ):
            keytool = str(Path(java.program).resolve().with_name("keytool"))
            try:
                done = subprocess.run([keytool, *command], capture_output=True, text=True, check=False)  # noqa: S603
            except OSError as error:
                raise SetupError(f"{keytool} of Java cannot be run: {error}; install a whole Java") from error
            if done.returncode:
                raise SetupError(f"{keytool} made no certificate: {(done.stdout + done.stderr).strip()}")
        store.chmod(0o600)
        making.replace(self.ca)

    @property
    def users(self) -> list[str]:
        """All users, with `ADMIN`."""
        return sorted(
            file.name for file in (self.directory / "passwords").iterdir() if file.name != _KEYSTORE
        )

    def format_arguments(self) -> list[str]:
        """Return the arguments of the tool that formats a broker's storage: its users."""
        return [
            word
            for user in self.users
            for word in ("--add-scram", f"{MECHANISM}=[name={user},password={self.password(user)}]")
        ]

    def protocol(self, listener: str) -> str:
        """Return the protocol of a listener."""
        return "SSL" if listener == "CONTROLLER" else PROTOCOL

    def properties(self, listeners: Iterable[str]) -> list[str]:
        """Return the lines of a broker's properties; `listeners` are those of clients."""
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        login = f'{module} required username="{ADMIN}" password="{self.password(ADMIN)}";'
        mechanism = MECHANISM.lower()
        return [
            f"ssl.keystore.location={self.directory / 'keystore.p12'}",
            "ssl.keystore.type=PKCS12",
            f"ssl.keystore.password={self.password(_KEYSTORE)}",
            f"ssl.truststore.location={self.ca}",
            "ssl.truststore.type=PEM",
            # The controller knows its broker by the certificate: passwords are known after it has started.
            "listener.name.controller.ssl.client.auth=required",
            f"sasl.enabled.mechanisms={MECHANISM}",
            f"sasl.mechanism.inter.broker.protocol={MECHANISM}",
            *(f"listener.name.{name.lower()}.{mechanism}.sasl.jaas.config={login}" for name in listeners),
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            f"super.users=User:{ADMIN};User:{_NAME}",
        ]

    def write_login(self) -> None:
        """Write what a broker with PLAIN needs, as values for Kafka's FileConfigProvider, and a tool's properties.

        broker.properties   `login` for its listeners, `keystore` with the password of the key
        admin.properties    for `--command-config`, with the certificate, so that it may be read from any place
        """
        certificate = self.ca.read_text("ascii").replace("\n", "\\n")
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        admin = f'{module} required username="{ADMIN}" password="{self.password(ADMIN)}"'
        users = " ".join(f'user_{user}="{self.password(user)}"' for user in self.users)
        self._write("broker.properties", [f"login={admin} {users};", f"keystore={self.password(_KEYSTORE)}"])
        lines = [
            f"security.protocol={PROTOCOL}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.certificates={certificate}",
            "sasl.mechanism=PLAIN",
            f"sasl.jaas.config={admin};",
        ]
        self._write("admin.properties", lines)

    def _write(self, name: str, lines: Iterable[str]) -> None:
        file = self.directory / name
        file.touch(mode=0o600)
        file.write_text("".join(f"{line}\n" for line in lines), "ascii")

    def let_group_read(self) -> None:
        """Let the group of the directory read all of it."""
        for path in (self.directory, *self.directory.rglob("*")):
            path.chmod(0o750 if path.is_dir() else 0o640)

    def client(self, user: str) -> Mapping[str, str]:
        """Return the properties of a client of librdkafka."""
        return {
            "security.protocol": PROTOCOL,
            "ssl.ca.location": str(self.ca),
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": self.password(user),
        }
