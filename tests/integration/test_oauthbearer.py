"""A Kafka that asks an identity provider: tokens of a token server, checked by a real broker."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from base64 import b64decode
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from quadlog.broker.admin import Admin
from quadlog.broker.connection import log_in
from quadlog.broker.outlet import KafkaOutlet
from quadlog.broker.reading import end_of
from quadlog.errors import Unavailable
from quadlog.kafka.acls import KafkaRole, add_grants, grants
from quadlog.kafka.broker_process import BrokerProcess, is_serving, until, watcher
from quadlog.kafka.broker_security import ADMIN, BrokerSecurity
from quadlog.kafka.ports import free_ports
from quadlog.kafka.prepare import prepare
from quadlog.leash import leashed
from quadlog.settings.kafka_security import ALLOWED_URLS, KafkaSecuritySettings
from quadlog.topics import Topics
from tests.support.labs import quadlog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ID, SECRET = "dc1-m1", 'a "secret" with \\ and $'
KEY = RSAKey.generate_key(2048, {"kid": "one"})
TOPICS = Topics("main", "dc1")


class Provider(BaseHTTPRequestHandler):
    """The token endpoint for one client, and the keys that its tokens are signed with."""

    def do_GET(self) -> None:
        self._answer(200, {"keys": [KEY.as_dict(private=False)]})

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        given = b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        if given != f"{ID}:{SECRET}" or form["grant_type"] != ["client_credentials"]:
            self._answer(401, {"error": "invalid_client"})
            return
        now = int(time.time())
        claims = {"sub": ID, "iat": now, "exp": now + 300, "aud": "kafka", "scope": form["scope"][0]}
        token = jwt.encode({"alg": "RS256", "kid": "one"}, claims, KEY)
        self._answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": 300})

    def _answer(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@dataclass
class Provided:
    """A broker that takes tokens, and where they are given."""

    kafka: str
    security: BrokerSecurity
    tokens: str
    secret: str = field(default=SECRET)

    def settings(self, **others: Any) -> KafkaSecuritySettings:  # noqa: ANN401 - of any type
        """Those of `ID`."""
        own = {
            "kafka_security_protocol": "SASL_SSL",
            "kafka_ssl_ca": str(self.security.ca),
            "kafka_sasl_mechanism": "OAUTHBEARER",
            "kafka_oauth_token_url": self.tokens,
            "kafka_oauth_client_id": ID,
            "kafka_oauth_client_secret": SECRET,
            "kafka_oauth_scope": "quads",
        }
        return KafkaSecuritySettings(**{**own, **others})


@pytest.fixture(scope="module")
def provided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provided]:
    directory = tmp_path_factory.mktemp("oauth")
    port, controller_port, tokens_port = free_ports(3)
    server = ThreadingHTTPServer(("127.0.0.1", tokens_port), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{tokens_port}"
    installation, security = prepare(print), BrokerSecurity(directory=directory / "security")
    security.prepare(installation.java, [], "ip:127.0.0.1")
    broker = BrokerProcess(
        installation=installation,
        directory=directory,
        log=directory / "broker.log",
        port=port,
        controller_port=controller_port,
        security=security,
    )
    broker.write_files()
    properties = directory / "server.properties"
    oauth = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
    listener = "listener.name.plaintext.oauthbearer.sasl"
    properties.write_text(
        properties.read_text().replace("sasl.enabled.mechanisms=", "sasl.enabled.mechanisms=OAUTHBEARER,")
        + f"{listener}.jaas.config={oauth}LoginModule required;\n"
        + f"{listener}.server.callback.handler.class={oauth}ValidatorCallbackHandler\n"
        + f"sasl.oauthbearer.jwks.endpoint.url={url}/keys\n"
        + "sasl.oauthbearer.expected.audience=kafka\n"
    )
    subprocess.run(leashed(broker.format_command()), check=True, stdout=subprocess.DEVNULL)
    process = subprocess.Popen(leashed(broker.run_command(f"-D{ALLOWED_URLS}={url}/keys")))
    try:
        until(lambda: is_serving(broker.bootstrap, security.client(ADMIN)), 60)
        admin = watcher(broker.bootstrap, security.client(ADMIN))
        add_grants(admin, grants(TOPICS, [(f"User:{ID}", KafkaRole.MASTER)]))
        yield Provided(broker.bootstrap, security, f"{url}/tokens")
    finally:
        process.kill()
        process.wait()
        server.shutdown()
        server.server_close()


@pytest.fixture
def logged_in(provided: Provided) -> Iterator[Provided]:
    log_in({provided.kafka: provided.settings().credentials()})
    yield provided
    log_in({provided.kafka: KafkaSecuritySettings().credentials()})


def test_clients_get_a_token(logged_in: Provided) -> None:
    """Administration, a producer and a consumer, with the rights of a master."""
    kafka = logged_in.kafka
    Admin(kafka).ensure(TOPICS.all(), replication=1, config={})
    failed: list[str] = []
    outlet = KafkaOutlet(kafka, client=ID, failed=failed.append)
    acknowledged = threading.Event()
    outlet.produce(TOPICS.agreed, key=b"1", values=[b"x"], headers=[], acked=lambda _: acknowledged.set())
    assert acknowledged.wait(30), failed
    end, [record] = end_of(kafka, TOPICS.agreed)
    assert (end, record.value) == (1, b"x")


def test_tools_of_kafka_get_a_token(logged_in: Provided, tmp_path: Path) -> None:
    Admin(logged_in.kafka).ensure(TOPICS.all(), replication=1, config={})
    environment = logged_in.settings().credentials().environment(tmp_path, {})
    done = quadlog(
        "kafka", "topics", "--bootstrap-server", logged_in.kafka, "--list", environment=environment
    )
    assert set(done.stdout.split()) == set(TOPICS.all()), done.stderr


def test_a_wrong_secret_is_told(provided: Provided) -> None:
    log_in({provided.kafka: provided.settings(kafka_oauth_client_secret="other").credentials()})
    try:
        with pytest.raises(
            Unavailable, match=r"refuses this client: .*invalid_client.*; correct the settings"
        ):
            Admin(provided.kafka).ids(TOPICS.all())
    finally:
        log_in({provided.kafka: KafkaSecuritySettings().credentials()})
