# One image for all roles: quadlog master, quadlog worker, and the jobs that workers and masters start (Spark).
# Settings are QUADLOG_… variables; data is in /var/lib/quadlog.  The root file system may be read-only, with a /tmp.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/quadlog
WORKDIR /src
COPY requirements-run.lock ./
RUN /opt/quadlog/bin/pip install --no-cache-dir --require-hashes -r requirements-run.lock
COPY . .
RUN /opt/quadlog/bin/pip install --no-cache-dir --no-deps . && /opt/quadlog/bin/python -m compileall -q /opt/quadlog/lib

FROM python:${PYTHON}-slim
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --home-dir /var/lib/quadlog --create-home quadlog
COPY --from=build /opt/quadlog /opt/quadlog
ENV PATH=/opt/quadlog/bin:$PATH PYTHONDONTWRITEBYTECODE=1 \
    QUADLOG_DATA_DIR=/var/lib/quadlog QUADLOG_HOST=0.0.0.0 QUADLOG_PORT=7001
USER quadlog
WORKDIR /var/lib/quadlog
VOLUME /var/lib/quadlog
EXPOSE 7001
# A process that serves HTTP is healthy.  Whether it takes writes is what /healthz/ready of a master says: see compose.yaml.
HEALTHCHECK --interval=5s --timeout=3s --start-period=20s CMD ["python3", "-c", "import os, urllib.request as u; u.urlopen(f'http://127.0.0.1:{os.environ[\"QUADLOG_PORT\"]}' + os.environ.get('HEALTH', '/healthz/alive'), timeout=2)"]
ENTRYPOINT ["quadlog"]
