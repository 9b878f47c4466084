# The service in a container: SQLite in /data, nobody's root, nothing built at run time.

FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements.lock requirements-dev.lock ./
# COMPILE=1 makes the hot path C: a quarter less CPU for each call (docs/self-hosting.md).
ARG COMPILE=
RUN [ -z "$COMPILE" ] || { apt-get update -qq \
 && apt-get install -qq -y --no-install-recommends gcc libc6-dev >/dev/null; }
# What builds the wheel is pinned too: its lines of the lock, hashes included. What compiles reads
# the types of all that is imported.
RUN awk '/^[a-z]/ {keep = /^(setuptools|mypy|mypy-extensions|ast-serialize|librt|pathspec)==/} keep' \
      requirements-dev.lock > build.lock \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes -r build.lock -r requirements.lock
RUN python -m venv /opt/truezero \
 && /opt/truezero/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml setup.py README.md LICENSE ./
COPY classifier classifier
COPY proxy proxy
COPY truezero truezero
RUN TRUEZERO_COMPILE=$COMPILE /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /opt/truezero/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl \
 && /opt/truezero/bin/pip check

FROM python:3.13-slim
RUN useradd --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin truezero \
 && install -d -o truezero /data
COPY --from=build /opt/truezero /opt/truezero
# `make image` writes the bill of materials first; without it the lock says what is installed.
COPY requirements.lock sbom.cdx.jso[n] /usr/share/doc/truezero/
ENV PATH=/opt/truezero/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER truezero
WORKDIR /data
VOLUME /data
EXPOSE 8383
HEALTHCHECK --interval=10s --timeout=4s --start-period=15s --retries=3 \
  CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8383/healthz', timeout=3)"]
ENTRYPOINT ["truezero"]
# Beyond loopback the service asks for TRUEZERO_ADMIN_TOKEN, and says so when it is missing.
CMD ["serve", "--host", "0.0.0.0"]
