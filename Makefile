# `make demo` and `make test` set up their own environment on a fresh machine.
# TORCH=2.15.0 runs the tests that must pass on any torch, in an environment of that version.

PYTHON ?= python3
TORCH ?=
NEXT := 2.15.0
# What must also pass on any torch: what listens to the compiler, what explain says of it, and the
# table of constructs of that torch.
ANY_TORCH := tests/compiler tests/diagnose/test_dynamo_explain_gaps.py tests/diagnose/test_dynamo_explain_gaps_distributed.py \
	tests/diagnose/test_harmless.py tests/diagnose/test_values.py tests/diagnose/test_unmask.py \
	tests/rewrites/check/test_constructs.py
VENV := .venv$(if $(TORCH),-$(TORCH))
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test quick durations record nightly lint zoo docs clean

demo: $(READY)
	@$(BIN)/python -m examples.demo

PYTEST := $(BIN)/python -m pytest -n 2
TESTS ?= tests

ifeq ($(TORCH),)
test: $(READY) lint
	@$(PYTEST) --dist worksteal --changed --recorded=sample
else
test: $(READY)
	@$(PYTEST) --dist worksteal --changed $(ANY_TORCH)
endif

# The tests that compile nothing and start no process.
quick: $(READY) lint
	@$(PYTEST) --dist worksteal -m 'not compiles and not slow'

# The seconds of each test of the last run, longest first.
durations:
	@sort -rn build/durations*.tsv | head -n $(or $(LINES),40)

# Runs for real what the tests under TESTS ask for and no recording answers, and records it.
record: $(READY)
	@$(PYTEST) --dist loadfile --recorded=write $(TESTS)

# Every test with nothing replayed or left out, all golden data, and torch 2.15; run it again to
# resume. CORPORA=1 adds the corpora of benchmarks/.
nightly: $(READY)
	@$(MAKE) --no-print-directory .venv-$(NEXT)/.ready TORCH=$(NEXT)
	$(if $(CORPORA),@$(BIN)/pip install -q -c constraints.txt -e '.[zoo]')
	@$(BIN)/python -m benchmarks.nightly --torch $(NEXT) $(if $(CORPORA),--corpora) -- $(ANY_TORCH)

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python docs/diagrams.py --check
	@$(BIN)/python docs/api.py --check

zoo: $(READY)
	@$(BIN)/pip install -q -c constraints.txt -e '.[zoo]'
	@$(BIN)/python benchmarks/zoo.py

docs: $(READY)
	@$(BIN)/python -m fullgraph.rewrites.pages
	@$(BIN)/python docs/diagrams.py
	@$(BIN)/python docs/api.py
	@$(BIN)/python docs/operators.py
	@$(BIN)/python docs/constructs.py
	@$(BIN)/python docs/lowering.py

$(READY): pyproject.toml constraints.txt
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV) (torch $(or $(TORCH),as constraints.txt pins it))"
ifeq ($(TORCH),)
	@$(BIN)/pip install -q -c constraints.txt torch
	@$(BIN)/pip install -q -c constraints.txt -e '.[dev,lint,models]'
else
	@$(BIN)/pip install -q torch==$(TORCH)
	@$(BIN)/pip install -q -e '.[dev]'
endif
	@touch $@

clean:
	rm -rf .venv .venv-* build dist *.egg-info
