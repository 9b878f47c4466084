# The service with SQLite in /data, running as an unprivileged user.

FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements.lock requirements-dev.lock ./
# COMPILE=1 compiles the hot path to C: a quarter less CPU per call (docs/guides/self-hosting.md).
ARG COMPILE=
RUN [ -z "$COMPILE" ] || { apt-get update -qq \
 && apt-get install -qq -y --no-install-recommends gcc libc6-dev >/dev/null; }
# Build tools are pinned by their lines of the lock, hashes included. The compiler needs the type
# annotations of all imports, hence both locks.
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
# Listening beyond loopback requires TRUEZERO_ADMIN_TOKEN; the service exits without it.
CMD ["serve", "--host", "0.0.0.0"]
