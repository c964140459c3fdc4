.DEFAULT_GOAL := help
.PHONY: docs help setup demo fmt lint types quick test netns e2e golden envoy-validate fuzz bench bench-smoke proto check ci

BIN := .venv/bin
PYTEST := $(BIN)/pytest -q
JOBS ?= 2

help:            ## print the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18
setup:           ## Debian packages that are missing, the environment, the git hook
	@tools/setup
demo: setup      ## the main job on the example, in a world of its own (ONCE=1: check it and exit)
	@tools/demo
fmt:             ## format and sort imports
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .
lint:            ## style, imports between rings, sizes, docs
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/lint-imports && $(BIN)/python -m tools.check
types:           ## strict types
	$(BIN)/mypy
quick:           ## all tests that need nothing
	$(PYTEST) -m "not root and not envoy and not e2e and not slow" -n $(JOBS) --dist worksteal
test: setup      ## everything this machine can run: the README's test command
	AETHER_REQUIRE=root,envoy,software $(PYTEST) -m "not slow" -n $(JOBS) --dist loadfile
netns:           ## tests on the real kernel
	$(PYTEST) tests/netns -n $(JOBS)
e2e:             ## tests on a real mesh
	$(PYTEST) tests/e2e -n $(JOBS) --dist loadfile
docs:            ## follow every page of the documentation to the letter
	$(PYTEST) tests/e2e/test_docs.py
golden:          ## rewrite golden files; then read the diff
	$(PYTEST) tests/golden --rewrite-golden; git diff --stat -- tests/golden
envoy-validate:  ## Envoy's own validation of every golden snapshot
	$(PYTEST) tests/conformance -m envoy
fuzz:            ## the properties, long profile
	HYPOTHESIS_PROFILE=long $(PYTEST) -m "not root and not envoy and not e2e" tests/properties tests/unit --timeout 3600 -n $(JOBS)
bench:           ## figures and ratios
	$(BIN)/python -m bench
bench-smoke:     ## the benchmarks, tiny, to see that they run
	$(BIN)/python -m bench --smoke
proto:           ## regenerate src/aether/_proto
	tools/proto
check: lint types quick   ## before every push
ci: check test   ## what CI runs
