"""`make lock`: choose the jars of Kafka and of Spark's connectors anew, and write their digests.

The resolver is the Ivy inside pyspark, with its default settings.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from quadlog.kafka.jars import KAFKA, LOCK, SPARK, pyspark_jars
from quadlog.kafka.java import find_java

COORDINATES = {
    "kafka": [
        f"org.apache.kafka:kafka_2.13:{KAFKA}",
        f"org.apache.kafka:kafka-tools:{KAFKA}:alone",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
    ],
    "spark": [
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{SPARK}",
        f"org.apache.spark:spark-avro_2.13:{SPARK}",
    ],
    "w3c": ["org.eclipse.rdf4j:rdf4j-sparql-testsuite:5.1.0:alone"],
}
"""organisation:module:version; with `alone`, dependencies are left out."""
TARGET = Path(__file__).parents[2] / "quadlog" / "kafka" / LOCK


def lines(work: Path) -> list[str]:
    """Return a line for each jar: its kind, path in a Maven repository, size and digest."""
    brought = pyspark_jars()
    (work / "ivy.xml").write_text(ivy_xml(brought))
    subprocess.run(
        [
            *(find_java().program, f"-Divy.default.ivy.user.dir={work}/ivy"),
            *("-cp", str(next(brought.glob("ivy-*.jar"))), "org.apache.ivy.Main"),
            *("-cache", f"{work}/ivy", "-ivy", f"{work}/ivy.xml"),
            "-retrieve",
            f"{work}/jars/[conf]/[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]",
            *("-types", "jar", "bundle"),
        ],
        check=True,
    )
    found = list[str]()
    for jar in (work / "jars").rglob("*.jar"):
        kind, organisation, *rest = jar.relative_to(work / "jars").parts
        path = "/".join((organisation.replace(".", "/"), *rest))
        contents = jar.read_bytes()
        found.append(f"{kind} {path} {len(contents)} {hashlib.sha256(contents).hexdigest()}")
    return sorted(found)


def ivy_xml(brought: Path) -> str:
    """Return the request as an Ivy module; Spark's part excludes the jars of pyspark."""
    shipped = sorted({re.sub(r"-\d[^/]*\.jar$", "", path.name) for path in brought.glob("*.jar")})
    wanted = [
        f'<dependency org="{org}" name="{module}" rev="{version}" conf="{kind}->default"'
        f' transitive="{"false" if alone else "true"}"/>'
        for kind, coordinates in COORDINATES.items()
        for org, module, version, *alone in (c.split(":") for c in coordinates)
    ]
    left_out = [f'<exclude module="{module}" conf="spark"/>' for module in shipped]
    kinds = [f'<conf name="{kind}"/>' for kind in COORDINATES]
    return "\n".join(
        [
            '<ivy-module version="2.0"><info organisation="quadlog" module="jars"/>',
            *("<configurations>", *kinds, "</configurations>"),
            *("<dependencies>", *wanted, *left_out, "</dependencies>"),
            "</ivy-module>",
        ]
    )


def main() -> int:
    """Write the lock."""
    with tempfile.TemporaryDirectory() as work:
        TARGET.write_text("\n".join(lines(Path(work))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
