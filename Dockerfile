# One image for all roles: quadlog master, quadlog worker, the Spark jobs that they start and a standalone Spark for them
# (compose.yaml, profile spark), and a whole lab in one container, with Kafka.
# Settings are QUADLOG_… variables; data is in /var/lib/quadlog.  The root file system may be read-only, with a /tmp.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS base
RUN apt-get update && apt-get install -y --no-install-recommends default-jre-headless \
 && apt-get clean && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --home-dir /var/lib/quadlog --create-home quadlog
ENV PATH=/opt/quadlog/bin:$PATH QUADLOG_CACHE=/opt/quadlog/cache

FROM base AS packages
RUN python3 -m venv /opt/quadlog
WORKDIR /src
COPY requirements-run.lock ./
# Without what no job of quadlog uses of Spark, 170 MB: state stores in RocksDB, Kubernetes, Hive, MLlib, Spark Connect.
RUN pip install --no-cache-dir --require-hashes -r requirements-run.lock \
 && cd /opt/quadlog/lib/python*/site-packages/pyspark/jars \
 && rm -r rocksdbjni-* kubernetes-* spark-kubernetes_* hive-* spark-hive* datanucleus-* derby* \
      spark-mllib* breeze* spire* cats-* spark-graphx_* spark-connect_* connect-repl
# The jars of Kafka and of Spark's connectors, and Kafka's class archive (50 MB), with which a broker starts in 1.0 s
# instead of 1.6 s.  The empty file says that there is none of Spark's: 165 MB, for 4 s of CPU of each session.
COPY quadlog/*.py quadlog/
COPY quadlog/kafka quadlog/kafka
RUN python -c "from quadlog.kafka import jars, prepare; kafka = prepare.prepare(print); (kafka.jars.home / f'spark-{prepare.named(kafka.java, str(jars.pyspark_jars()))}.jsa').touch()"

FROM packages AS program
COPY . .
RUN pip install --no-cache-dir --no-deps --prefix /program .

FROM packages AS without-pip
RUN pip uninstall --yes --quiet pip

FROM base
# Packages and jars (660 MB) are a layer of their own, which stays while only the program changes.
COPY --from=without-pip /opt/quadlog /opt/quadlog
COPY --from=program /program /opt/quadlog
ENV PYTHONDONTWRITEBYTECODE=1 QUADLOG_DATA_DIR=/var/lib/quadlog QUADLOG_HOST=0.0.0.0 QUADLOG_PORT=7001
USER 10001
WORKDIR /var/lib/quadlog
VOLUME /var/lib/quadlog
EXPOSE 7001
# A process that serves HTTP is healthy.  Whether it takes writes is what /healthz/ready of a master says: see compose.yaml.
HEALTHCHECK --interval=5s --timeout=3s --start-period=20s CMD ["python3", "-c", "import os, urllib.request as u; u.urlopen(f'http://127.0.0.1:{os.environ[\"QUADLOG_PORT\"]}' + os.environ.get('HEALTH', '/healthz/alive'), timeout=2)"]
ENTRYPOINT ["quadlog"]
