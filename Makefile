# Everything a newcomer runs. It needs Python 3.11 or newer and sets up the rest in .venv.

PYTHON ?= python3
UV ?= uv
IMAGE ?= truezero
COMPILE ?= 1
ARGS ?=
SBOM ?= sbom.cdx.json
AUDIT_S ?= 30  # of patience with the network

# Tests start hundreds of processes: what Python compiled once is kept, whatever a shell says.
export PYTHONDONTWRITEBYTECODE =

VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
READY := $(VENV)/.ready
# Two for each core, up to eight: half of the time a test waits. One more costs a tenth of the CPU.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 4 ? 2 * n : 8)))
PYTEST := $(abspath $(BIN))/python -m pytest -n $(WORKERS) --dist loadfile
INTEGRATIONS := $(VENV)/integrations
PEERS ?= $(VENV)/peers
CHAOS := $(VENV)/agentchaos
HOT_TESTS := $(addprefix tests/proxy/,capture inbound outbound recording/test_recorder.py relay \
	routing wire) $(addprefix tests/features/,drills metrics/test_metrics.py pace websocket)
COMPILED ?= $(VENV)/compiled
PIP_INSTALL := pip install --quiet --disable-pip-version-check
PIP_INSTALL_TOOLS := $(PIP_INSTALL) --no-compile  # what nobody imports took half of the time
LOCK := $(UV) pip compile pyproject.toml --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet

.DEFAULT_GOAL := help
.PHONY: help demo serve test test-slow all test-steady check audit compiled testcompiled testcompiled-whole fuzz attack fairness sbom bench peers soak \
	agents wires environments integrations integrations-changed manifests corpus screenshots dist image lock pace rl

help: ## print these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(RUNTIME) ## agents against a provider that fails in known ways, and the verdicts
	$(BIN)/truezero demo $(ARGS)
	@echo
	@echo 'truezero is in $(BIN). To type its commands in this shell:  . $(BIN)/activate' >&2

serve: $(RUNTIME) ## the proxy on 127.0.0.1:8383
	$(BIN)/truezero serve $(ARGS)

test: $(READY) ## what a change needs; ARGS=--durations=20 lists the slowest
	$(PYTEST) -m "not slow" $(ARGS)

test-slow: $(READY) ## the dear ones: kills, clusters, a browser, PostgreSQL; --loops N: the cheapest
	$(PYTEST) -m slow --costs=$(VENV)/costs.json $(ARGS)

all: ## everything, for an hour: before a release, and each week
	$(MAKE) --keep-going check manifests test test-slow testcompiled-whole integrations attack fairness corpus wires

test-steady: $(READY) ## make test ten times in a row while every core is busy
	$(BIN)/python -m tests.steady --workers $(WORKERS) $(ARGS)

check: $(READY) ## style, types, and whether a pinned package is known to be vulnerable
	@$(MAKE) --no-print-directory --keep-going --jobs=4 $(APART) $(CHECKS)

# All at once: the audit waits for the network, mypy for a core. Each says what it found in one piece.
CHECKS := style format types audit
APART := $(if $(filter output-sync,$(.FEATURES)),--output-sync)
.PHONY: $(CHECKS)
style: $(READY)
	$(BIN)/ruff check .

format: $(READY)
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# pip-audit exits with 1 for a vulnerability and for a network that does not answer alike.
audit: $(READY)
	@report=$$(timeout $(AUDIT_S) $(BIN)/pip-audit --requirement requirements.lock --no-deps --disable-pip \
		--progress-spinner off --timeout 5 $(ARGS) 2>&1) && case "$$report" in \
	*could\ not\ be\ audited*) echo "audit: $$(echo "$$report" | grep -c 'could not be audited')" \
		"pinned packages are not known there, and were not checked";; \
	*) echo "$$report" | tail -n 1;; esac || case "$$report" in \
	*Found\ *\ known\ vulnerabilit*) echo "$$report"; exit 1;; \
	*) echo "audit: vulnerability data cannot be reached, nothing was checked";; esac

compiled: $(READY) ## a copy in .venv/compiled whose hot path is C; needs a C compiler, takes a minute
	rm -rf $(COMPILED)
	mkdir $(COMPILED)
	tar -c --exclude='./.*' --exclude=./benchmarks/results . | tar -x -C $(COMPILED)
	cd $(COMPILED) && TRUEZERO_COMPILE=1 $(abspath $(BIN))/python setup.py --quiet build_ext --inplace

testcompiled: compiled ## on that copy: golden calls, every call's rooms, and what covers the rest of its branches
	cd $(COMPILED) && $(PYTEST) -m "not reaches_in and not slow" \
		$(addprefix tests/,proxy/inbound proxy/outbound proxy/relay features/websocket) \
		tests/features/drills/test_golden_calls.py @tests/proxy/compiled.txt $(ARGS)

testcompiled-whole: compiled ## all tests of the hot path, on that copy
	cd $(COMPILED) && $(PYTEST) -m "not reaches_in" $(HOT_TESTS) $(ARGS)

fuzz: $(READY) ## what nobody sane would send, for --minutes 5; by coverage too where atheris is
	HYPOTHESIS_PROFILE=many $(PYTEST) -q -m hypothesis
	$(BIN)/python -m tests.fuzz $(ARGS)

attack: $(READY) ## what an agent would try against a running service, and whether it held
	$(BIN)/python -m tests.attack $(ARGS)

fairness: $(READY) ## honest failures at a running service, and how many are taken for zeros
	$(BIN)/python -m tests.fairness $(ARGS)

sbom: $(READY) ## what the image installs, as CycloneDX, into sbom.cdx.json
	$(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --mc-type application \
		--output-reproducible --output-file $(SBOM) requirements.lock

bench: $(READY) ## what the relay costs, beside nginx and what `make peers` put there; needs a C compiler
	$(BIN)/python -m benchmarks.run $(ARGS)

GATEWAYS := nginx envoy caddy traefik ferrogw rolter vllm-router sglang-router tensorzero litellm
peers: $(foreach name,$(GATEWAYS),$(PEERS)/$(name)/.ready) $(PEERS)/portkey/.ready ## the gateways that make bench puts beside us

pace: $(READY) ## 64 agents, three services and a provider that keeps its limit: docs/measurements/pace.md
	$(BIN)/python -m benchmarks.pace $(ARGS)

rl: $(READY) ## what masked groups are worth to a policy, into docs/guides/rl.svg
	$(BIN)/python -m benchmarks.rl

soak: $(READY) ## 20 minutes at 300 calls/s while agents, providers and the disk fail
	$(BIN)/python -m benchmarks.soak $(ARGS)

agents: $(READY) ## real agents from npm while their provider fails, into docs/measurements/agents.md
	$(BIN)/python -m tests.agents $(ARGS)

wires: $(READY) ## newest SDKs and agents ask a recorder: what changed since tests/wires/facts; ARGS=--accept keeps it
	@$(BIN)/python -m tests.wires $(ARGS)

MANIFESTS := $(VENV)/manifests
manifests: $(MANIFESTS)/.ready ## deploy/kubernetes against Kubernetes' own schemas
	$(MANIFESTS)/bin/kubernetes-validate --strict deploy/kubernetes/*.yaml

HARNESSES := benchflow clients gateways harbor inspect_ai maseval mini_swe_agent nemo_evaluator \
	optimisers sinks swebench verifiers
MORE ?=  # heavy: clients that are large
CHOSEN := $(strip $(HARNESSES) $(MORE))
HARNESS_ENVIRONMENTS := $(CHOSEN:%=$(INTEGRATIONS)/%/.ready)
HARNESS_TESTS := INTEGRATIONS=$(INTEGRATIONS) HARNESSES="$(CHOSEN)"
environments: $(READY)
	@$(if $(CHOSEN),$(MAKE) --no-print-directory --keep-going --jobs=2 $(HARNESS_ENVIRONMENTS))

integrations: environments ## the harnesses themselves, from PyPI
	$(if $(filter-out gateways,$(CHOSEN)),$(HARNESS_TESTS) $(PYTEST) \
		tests/journeys/test_integrations.py tests/journeys/test_harness_failures.py \
		tests/journeys/test_agent_harness_failures.py tests/journeys/test_beside_*.py \
		tests/journeys/test_audited_harnesses.py tests/journeys/test_identity.py \
		tests/journeys/test_sinks.py tests/journeys/test_optimisers.py tests/journeys/test_loops.py $(ARGS))
	$(if $(filter gateways,$(CHOSEN)),$(HARNESS_TESTS) $(BIN)/python -m pytest \
		tests/journeys/test_gateways.py $(ARGS))

integrations-changed: $(READY) ## those whose pins or adapter changed since CI_BASE, else the last release
	@changed="$$($(BIN)/python -m tests.journeys.changed)"; left=; \
	for name in $(HARNESSES); do case " $$changed " in *" $$name "*) ;; *) left="$$left $$name";; esac; done; \
	echo "harnesses that changed: $${changed:-none}; left to make all:$${left:- none}"; \
	test -z "$$changed" || $(MAKE) --no-print-directory integrations HARNESSES="$$changed"

corpus: $(READY) $(CHAOS)/.ready ## score what is read of answers, and verdicts, against labels and a stranger's faults
	@worst=0; \
	$(BIN)/python -m tests.corpus_score || worst=$$?; \
	$(BIN)/python -m tests.chaos --python $(CHAOS)/bin/python $(ARGS) || worst=$$?; \
	exit $$worst

screenshots: $(READY) ## take docs/screenshots anew; needs chromium
	$(BIN)/python -m tests.screenshots

dist: $(READY) ## what is released, into dist/: tried in an empty environment on each Python at hand
	$(BIN)/python -m tests.dist $(ARGS)

image: sbom ## the container image, its hot path compiled; COMPILE= leaves it
	docker build --build-arg COMPILE=$(COMPILE) --build-arg COMMIT=$$(git rev-parse HEAD 2>/dev/null) --tag $(IMAGE) .

lock: ## pin the dependencies anew, within pyproject.toml; needs uv
	$(LOCK) --extra server --extra postgres -o requirements.lock
	$(LOCK) --extra dev -c requirements.lock --no-emit-package truezero -o requirements-dev.lock

# What runs truezero, made again when a lock changes: all that `make demo` and `make serve` wait for.
$(RUNTIME): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("truezero needs Python 3.11 or newer, and $(PYTHON) is %d.%d: \
	make PYTHON=python3.12 $(MAKECMDGOALS)" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@UV=$(UV) $(PYTHON) deploy/environment.py $(VENV) requirements.lock
	@touch $@

# And what tests and builds it, in the same place.
$(READY): $(RUNTIME) requirements-dev.lock
	@UV=$(UV) $(PYTHON) deploy/environment.py $(VENV) requirements-dev.lock
	@touch $@

# One for each harness: they need different releases of one client. What is installed is kept in the
# user's cache. Some need a newer Python than we do, and find us as `pip install` leaves us: where the
# machine has none that is said, and their tests are skipped.
$(INTEGRATIONS)/%/.ready: tests/journeys/integrations/%.txt tests/journeys/environments.py pyproject.toml | $(READY)
	@$(BIN)/python -m tests.journeys.environments $* $(@D) $(PYTHON)

# Faults that others thought of; without a package index their board is left out.
$(CHAOS)/.ready: tests/chaos/agentchaos.txt | $(READY)
	$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m $(PIP_INSTALL_TOOLS) --no-deps --require-hashes -r $< && touch $@ || \
		echo "agentchaos-sdk cannot be installed here"

# Schemas of 100 MB, which no other target needs.
$(MANIFESTS)/.ready: deploy/kubernetes/validator.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m $(PIP_INSTALL_TOOLS) -r $<
	@touch $@

# Gateways to measure beside us, each where nothing else sees it. One that cannot be had here is
# told, and a row of the board says why it is empty.
$(PEERS)/%/.ready: benchmarks/tools/%.txt
	$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m $(PIP_INSTALL) -r $< && touch $@ || \
		echo "$* cannot be installed here"

# Its last release asks for others that not every mirror has yet: those of one before do.
$(PEERS)/litellm/.ready: benchmarks/tools/litellm.txt benchmarks/tools/litellm-itself.txt
	$(PYTHON) -m venv $(@D)
	@pip="$(@D)/bin/python -m $(PIP_INSTALL)"; \
	$$pip -r $< && $$pip --no-deps -r $(word 2,$^) && touch $@ || echo "litellm cannot be installed here"

$(PEERS)/portkey/.ready: benchmarks/tools/package.json
	mkdir -p $(@D)
	cp $< $(@D)
	@npm install --prefix $(@D) --no-audit --no-fund --no-package-lock --silent && touch $@ || \
		echo "portkey cannot be installed here"
