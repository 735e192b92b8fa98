# Two commands do everything on a fresh machine with Python 3.11+ and Java 17+: make demo, make test.

PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
RESULTS := .test-results
# A lab is a dozen processes of the same code: it is compiled once, also where the environment (a container's, often)
# tells Python not to keep what it compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test first alone begins follows waits computes helps soak check sim integration e2e bench mutants format lock clean

setup: .venv/ready  ## Everything that the other commands need: packages, Kafka's jars

.venv/ready: pyproject.toml requirements.lock requirements-demo.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "quadlog needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements-demo.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/quadlog kafka setup
	@touch $@

demo: setup  ## Three data centres load the Brick ontology at once
	$(BIN)/quadlog demo

# What a process of pytest says that runs beside another one comes at its end.
QUIETLY = >$(RESULTS)/$@.log 2>&1; code=$$?; cat $(RESULTS)/$@.log; exit $$code
CLAIMS := $(RESULTS)/claims
FAILED := $(RESULTS)/alone.failed

test: setup  ## Every test, on real brokers and processes: what is alone, then one or two processes with what waits; beside them one or two with what computes
	@rm -rf $(CLAIMS) $(FAILED) && mkdir -p $(CLAIMS)
	@lanes="begins computes"; \
	  if $(BIN)/python -m tests.support.speed; then lanes="$$lanes helps follows FIRST=first"; \
	  else $(MAKE) --no-print-directory first; fi; \
	  $(MAKE) --no-print-directory --keep-going --jobs 4 CLAIM=--claims=$(CLAIMS) $$lanes && test ! -e $(FAILED)

# On a fast machine only what computes runs beside it: with a low priority it takes the cores that idle then.
first:
	@$(MAKE) --no-print-directory alone || touch $(FAILED)

ALONE = $(shell grep -rl --include 'test_*.py' 'mark\.alone' tests | sort)

alone: setup  ## What promises seconds to clients or operators: nothing else runs meanwhile, or only what computes
	@mkdir -p $(RESULTS)
	TEST_LANE=0/4 $(PYTEST) --durations=10 -m "alone and not soak" --junitxml $(RESULTS)/$@.xml $(ALONE)

# The two that begin with what waits, the second one on a fast machine; the first one says what it runs while it runs it.
# What is not collected takes no time: these folders have all that waits, and what computes has no cluster.
WAITING = $(PYTEST) --durations=10 -m "not alone and not soak" $(CLAIM) tests/e2e tests/integration tests/bench

begins: setup $(FIRST)
	@TEST_LANE=0/4 $(WAITING) --junitxml $(RESULTS)/$@.xml

follows: setup $(FIRST)
	@TEST_LANE=1/4 $(WAITING) --junitxml $(RESULTS)/$@.xml $(QUIETLY)

waits: setup  ## Whole clusters, and what measures time: one test at a time
	$(PYTEST) --durations=10 -m "waits and not soak" --junitxml $(RESULTS)/$@.xml

COMPUTES = nice -n 10 $(PYTEST) --ignore tests/e2e --durations=10 -m "not waits and not soak" $(CLAIM) --junitxml $(RESULTS)/$@.xml $(QUIETLY)

computes: setup  ## The other tests, with a low priority; what they say comes at their end
	@mkdir -p $(RESULTS)
	@TEST_LANE=2/4 $(COMPUTES)

# The same in a second process, on a fast machine: tests that run alone leave cores idle.
helps: setup
	@mkdir -p $(RESULTS)
	@TEST_LANE=3/4 $(COMPUTES)

# Each file with long tests is a part: what passed at this commit is not run again.
SOAK ?= $(shell grep -rl --include 'test_*.py' 'mark\.soak' tests | sort)
SOAKED := $(RESULTS)/soak/$(shell git rev-parse --short HEAD 2>/dev/null || echo here)

soak: setup  ## The long versions of tests, part by part, each at most 30 minutes; SOAK="tests/e2e/test_x.py" for some
	@$(MAKE) --no-print-directory --keep-going $(SOAK:%.py=$(SOAKED)/%.passed); code=$$?; \
	  cd $(SOAKED) && find . -name '*.txt' | sort | xargs head -qn 1; exit $$code

$(SOAKED)/%.passed:
	@mkdir -p $(@D)
	timeout 1800 $(PYTEST) --durations=10 -m soak --timeout 1800 --junitxml $(@:.passed=.xml) $*.py
	@touch $@

check: setup  ## What is seen without running: style, types, arrows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

sim: setup  ## The agreement in bad weather: more seeds than in `make test`; SIM="--seeds 100"
	$(BIN)/python -m tests.support.agreement.sim $(SIM)

integration: setup  ## Real brokers and stores, in part and as whole clusters
	$(PYTEST) -m "not soak" tests/integration tests/e2e

e2e: setup  ## Whole clusters
	$(PYTEST) -m "not soak" tests/e2e

bench: setup  ## Measurements, 15 minutes; BENCH="--seconds 5 --runs 1" for a look
	$(BIN)/python -m tests.bench $(BENCH)

mutants: setup  ## Each rule of the agreement broken once: the behaviour tests must notice
	$(BIN)/python -m tests.mutants.run

format: setup  ## Lay the code out
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock:  ## Choose versions anew
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet uv
	.venv-lock/bin/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-annotate --output-file requirements.lock
	.venv-lock/bin/uv pip compile pyproject.toml --universal --python-version 3.11 --constraints requirements.lock \
	  --generate-hashes --no-header --no-annotate --output-file requirements-run.lock  # of the image
	rm -rf .venv-lock
	$(BIN)/python -m tests.support.lock_jars

clean:  ## Remove what was made here (not the cache, which checkouts share)
	rm -rf .venv $(RESULTS) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
