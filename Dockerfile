# The service with SQLite in /data, running as an unprivileged user.

FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements.lock requirements-dev.lock ./
RUN python -m venv /opt/truezero \
 && /opt/truezero/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
# --build-arg COMPILE=1 compiles the hot path to C where it can be: a quarter less CPU per call,
# for a build that takes minutes instead of one.
ARG COMPILE=
RUN [ -z "$COMPILE" ] || { apt-get update -qq \
 && apt-get install -qq -y --no-install-recommends gcc libc6-dev >/dev/null; } \
 || echo "no C compiler to be had: the service will be plain Python"
# Build tools are pinned by their lines of the lock, hashes included. The compiler needs the type
# annotations of all imports, hence both locks.
RUN tools=setuptools imports= \
 && if [ -n "$COMPILE" ]; then \
      tools="$tools|mypy|mypy-extensions|ast-serialize|librt|pathspec" imports="-r requirements.lock"; \
    fi \
 && awk "/^[a-z]/ {keep = /^($tools)==/} keep" requirements-dev.lock > build.lock \
 && python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes -r build.lock $imports
COPY pyproject.toml setup.py README.md LICENSE ./
COPY docs docs
COPY classifier classifier
COPY proxy proxy
COPY truezero truezero
# What --version says it was built from: --build-arg COMMIT=$(git rev-parse HEAD).
ARG COMMIT=
# Not by pip, which would keep to itself which module is being compiled.
RUN export TRUEZERO_COMMIT=$COMMIT wheel="/opt/build/bin/python setup.py --quiet bdist_wheel --dist-dir /wheels" \
 && { TRUEZERO_COMPILE=$COMPILE $wheel || { echo "not compiled: plain Python instead"; $wheel; }; } \
 && /opt/truezero/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl \
 && /opt/truezero/bin/pip check

FROM python:3.13-slim
RUN useradd --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin truezero \
 && install -d -o truezero /data /token
COPY --from=build /opt/truezero /opt/truezero
# `make image` writes the bill of materials first; without it the lock says what is installed.
COPY requirements.lock sbom.cdx.jso[n] /usr/share/doc/truezero/
ENV PATH=/opt/truezero/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER truezero
WORKDIR /data
VOLUME /data
EXPOSE 8383
HEALTHCHECK --interval=10s --timeout=4s --start-period=15s --retries=3 \
  CMD ["python", "-c", "import os, ssl, urllib.request as u; tls = os.environ.get('TRUEZERO_CERTFILE', 'none') not in ('', 'none'); u.urlopen(f'http{\"s\" * tls}://127.0.0.1:8383/healthz', timeout=3, context=ssl._create_unverified_context() if tls else None)"]
ENTRYPOINT ["truezero"]
# Without TRUEZERO_ADMIN_TOKEN the first start makes a token, keeps it in /data and prints a link.
CMD ["serve", "--host", "0.0.0.0", "--make-token"]
