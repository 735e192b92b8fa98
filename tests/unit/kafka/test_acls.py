"""Who may do what at a Kafka, also where several processes share a user."""

from __future__ import annotations

from quadlog.kafka.acls import KafkaRole, grants
from quadlog.topics import Topics

TOPICS = Topics("main", "dc1")


def test_a_user_in_several_roles_has_the_rights_of_all_of_them_each_once() -> None:
    user = "User:quadlog"
    alone = {role: grants(TOPICS, [(user, role)]) for role in KafkaRole}
    together = grants(TOPICS, [(user, role) for role in KafkaRole])
    assert set(together) == {grant for some in alone.values() for grant in some}
    assert len(together) == len(set(together)) > max(map(len, alone.values()))
