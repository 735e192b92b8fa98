"""What every worker says of its state, compared with what the effects say: with Kafka's client and the registry alone.

    python plain_audit.py http://127.0.0.1:8081/registry main dc1=127.0.0.1:9092 dc2=127.0.0.1:9192

It needs `pip install "confluent-kafka[avro,schemaregistry]"`, and nothing of quadlog; `quadlog audit` compares more.
"""

import sys

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

registry, repository, *kafkas = sys.argv[1:]
read = AvroDeserializer(SchemaRegistryClient({"url": registry}))
consumers, signatures, waiting = [], {}, []
for dc, servers in (kafka.split("=") for kafka in kafkas):
    consumers.append(
        Consumer({"bootstrap.servers": servers, "group.id": "plain-audit", "enable.auto.commit": False})
    )
    consumers[-1].assign(
        [TopicPartition(f"{repository}.{dc}.{name}", 0, 0) for name in ("effects", "status")]
    )
while True:
    for message in (message for consumer in consumers for message in consumer.consume(500, 0.2)):
        context = SerializationContext(message.topic(), MessageField.VALUE)
        record = None if message.error() else read(message.value(), context)
        if record and "signature_after" in record:
            signatures.setdefault((record["index"], record["entry_chain"]), set()).add(
                record["signature_after"]
            )
        elif record and "applied_chain" in record:
            waiting.append(record)
    for beat in waiting:
        right = signatures.get((beat["applied_index"], beat["applied_chain"]))
        if right:  # else its effect was not read yet
            word = "right" if beat["signature"] in right else "WRONG"
            print(word, beat["worker"], beat["applied_index"], beat["signature"].hex(), flush=True)
    waiting = [beat for beat in waiting if (beat["applied_index"], beat["applied_chain"]) not in signatures]
