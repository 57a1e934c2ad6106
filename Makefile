# The same commands on a desk and in .ci/run; `make` alone lists them.
# Variables: PYTHON (what makes the environment), TORCH (what pip is asked for, first), ARGS (passed on to the program),
# GROUP (of test-extras: which packages are tested with).
#   make setup PYTHON=python3.12 TORCH="torch --index-url URL_OF_YOUR_WHEELS"
#   make test ARGS="tests/unit/format -x"
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV ?= .venv
LAKE ?= .demo
ARGS ?=
GROUP ?=

# The groups of test-extras, and what each installs, in the versions of constraints/GROUP.txt and after torch where its tests
# need that; they are in tests/extras/GROUP.
EXTRAS := torch jax tf ray flows openapi otel flwr media graphs lerobot trainers vision croissant notebook formats hf mcp onnx trajectories
EXTRAS_torch := torchdata
EXTRAS_jax := jax orbax-checkpoint
EXTRAS_tf := tensorflow-cpu google-crc32c
EXTRAS_ray := ray[data] pillow imagecodecs
EXTRAS_flows := dbos fastapi uvicorn[standard] prometheus-client pyjwt[crypto] pillow httpx
EXTRAS_openapi := openapi-python-client fastapi uvicorn[standard] prometheus-client pyjwt[crypto] pillow
EXTRAS_otel := fastapi uvicorn[standard] prometheus-client pyjwt[crypto] pillow aiohttp opentelemetry-distro opentelemetry-exporter-otlp
EXTRAS_flwr := flwr aiohttp fastapi uvicorn[standard] prometheus-client pyjwt[crypto] pillow psutil
EXTRAS_media := pillow imagecodecs
EXTRAS_graphs := torch_geometric pymetis scipy
EXTRAS_lerobot := torchvision torchcodec datasets huggingface-hub av jsonlines draccus termcolor einops deepdiff imageio pandas accelerate diffusers gymnasium pyserial pillow imagecodecs
EXTRAS_trainers := lightning transformers accelerate
EXTRAS_vision := torchvision albumentations pillow imagecodecs
EXTRAS_croissant := mlcroissant pillow imagecodecs
EXTRAS_hf := datasets pillow imagecodecs
EXTRAS_notebook := anywidget fastapi uvicorn[standard] prometheus-client pyjwt[crypto] pillow
EXTRAS_mcp := mcp pillow imagecodecs
EXTRAS_onnx := onnxruntime onnx pillow imagecodecs
EXTRAS_trajectories := gymnasium envpool minari[hdf5,create] pillow imagecodecs
EXTRAS_formats := h5py mosaicml-streaming litdata pylance pypcd4 laspy lazrs trimesh pygltflib pillow imagecodecs
TORCH_EXTRAS := torch ray graphs lerobot trainers vision formats

# torchvision is built for one release of torch and one kind of it: its groups have the pair that PyPI has.
TORCH_vision ?= torch==2.14.1
TORCH_lerobot ?= torch==2.14.1
TORCH_formats ?= torch==2.14.1

# Packages whose requirements do not resolve beside this torch are installed without them: the group has what they import.
ALONE_lerobot := lerobot

BIN := $(VENV)/bin
PYTEST_TWO := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
READY := $(VENV)/.ok
STATIC := server/tensorlake_server/static/index.html
NPM := $(shell command -v npm 2>/dev/null)
VIEWER_SOURCES := $(shell find viewer -type f -not -path '*/node_modules/*' 2>/dev/null)

.PHONY: help setup demo serve check test test-slow test-times test-extras soak bench bench-compare structure docs licences changes release-check api viewer clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with everything that the other commands need

# torch comes first and by pip: pip also looks where its user told it to, and what it finds is kept by what follows.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: tensorlake needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) -V 2>&1);" \
	       "name another: make setup PYTHON=python3.12" >&2; exit 1; }
	@if command -v uv >/dev/null; then \
	  test -x $(BIN)/python || uv venv --quiet --seed --python "$(PYTHON)" $(VENV); \
	else \
	  $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "make: '$(PYTHON)' comes without venv or ensurepip;" \
	         "on Debian and Ubuntu: apt-get install python3-venv (or install uv), then run make again" >&2; exit 1; }; \
	  test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); \
	fi
	$(BIN)/python -m pip install --quiet -c constraints.txt $(TORCH)
	@if command -v uv >/dev/null; then \
	  echo "uv pip install -e .[dev]"; \
	  uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[dev]'; \
	else \
	  echo "pip install -e .[dev]"; \
	  $(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'; \
	fi
	@$(BIN)/python query/build_grammar.py
	@touch $@

# What only reads and prints uses the environment as it is; there must be one.
$(BIN)/python:
	@echo "make: there is no environment in '$(VENV)' yet; run: make setup" >&2; exit 1

demo: setup ## from files to a trained model, on data in this repository, in about a minute
	@$(BIN)/tensorlake demo --lake $(LAKE) $(ARGS)

serve: setup ## open the viewer on what the demo made (LAKE=… for another lake)
	@test -e $(LAKE) || { echo "make: there is no lake at '$(LAKE)' yet; run: make demo" >&2; exit 1; }
	@if test -n "$(NPM)"; then $(MAKE) --no-print-directory viewer; \
	elif ! test -e $(STATIC); then \
	  echo "make: the viewer is not built and npm is not here: only the HTTP API will answer" >&2; fi
	@$(BIN)/tensorlake serve $(LAKE) $(ARGS)

check: setup ## formatting, lint, types, import directions, viewer
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	@if test -n "$(NPM)"; then $(MAKE) --no-print-directory viewer/node_modules/.ok && cd viewer && npm run --silent check && npm run --silent lint; \
	else echo "viewer: not checked, npm is not here"; fi

test: setup ## the default suite, two files at a time: every test but slow, soak and extras
	$(PYTEST_TWO) --durations=15 $(ARGS)
	@if test -n "$(NPM)"; then $(MAKE) --no-print-directory viewer/node_modules/.ok && cd viewer && npm run --silent test; \
	else echo "viewer: not tested, npm is not here"; fi

test-slow: setup ## the tests that are too slow for every run
	$(PYTEST_TWO) -m slow --durations=15 $(ARGS)

test-times: $(BIN)/python ## seconds of the default suite by room, held to tests/budgets.toml (ARGS="-m slow": of the slow one)
	$(PYTEST_TWO) -p tests.tools.room_times --durations=30 $(ARGS)

ifeq ($(GROUP),)
test-extras: setup ## the tests with other libraries (GROUP=torch|jax|tf|ray|flows|openapi|otel|flwr|media|graphs|lerobot|trainers|vision|croissant|notebook|formats|hf|mcp|onnx|trajectories: in its own environment)
	@echo "groups that are tested in an environment of their own (make test-extras GROUP=…): $(EXTRAS); now what is installed in $(VENV)"
	$(BIN)/python -m pytest -m extras $(ARGS)
else ifeq ($(EXTRAS_$(GROUP)),)
test-extras:
	@echo "make: there is no group '$(GROUP)'; there are: $(EXTRAS)" >&2; exit 1
else
test-extras: .venv-extras-$(GROUP)/.ok
	EXTRAS_GROUP=$(GROUP) $(if $(wildcard tests/extras/$(GROUP)/ffmpeg.py),LD_LIBRARY_PATH="$$(.venv-extras-$(GROUP)/bin/python tests/extras/$(GROUP)/ffmpeg.py)") \
	  .venv-extras-$(GROUP)/bin/python -m pytest -m extras tests/extras/$(GROUP) $(ARGS)
endif

# A group's packages may need other versions of ours than make setup installs: each has an environment, torch first, and kept.
# Where they do not resolve, the group has failed: what is known about it is in the comments of its constraints.
.venv-extras-%/.ok: Makefile pyproject.toml constraints/%.txt
	@if command -v uv >/dev/null; then test -x $(@D)/bin/python || uv venv --quiet --seed --python "$(PYTHON)" $(@D); \
	else test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D); fi
	@: >$(@D)/torch.txt
	@install() { \
	  echo "pip install $$*"; \
	  $(@D)/bin/python -m pip install --quiet --no-compile -c constraints/$*.txt -c $(@D)/torch.txt "$$@"; \
	}; \
	torch_first() { \
	  install $(or $(TORCH_$*),$(TORCH)) && $(@D)/bin/python -c \
	    'from importlib.metadata import version; print("torch==" + version("torch"))' >$(@D)/torch.txt; \
	}; \
	{ $(if $(filter $*,$(TORCH_EXTRAS)),torch_first,true) && install -e . pytest pytest-timeout hypothesis $(EXTRAS_$*) && \
	  $(if $(ALONE_$*),install --no-deps $(ALONE_$*),true); } || { \
	  echo "make: group '$*' was not tested, so it has failed: its packages cannot be installed here" >&2; \
	  sed -n 's/^# //p' constraints/$*.txt >&2; exit 1; }
	@touch $@

soak: setup ## the tests that take minutes each, hours together: docs/explanation/soak.md
	$(BIN)/python -m pytest -m soak --hypothesis-profile=soak -o faulthandler_timeout=4000 $(ARGS)
	$(BIN)/python -m pytest tests/property -m "not soak and not extras" --hypothesis-profile=soak --timeout=3600 -o faulthandler_timeout=4000

structure: $(BIN)/python ## entries per folder, import circles, inheritance, files that everyday calls enter
	@$(BIN)/python -m tests.tools.structure

bench: setup ## the figures, beside what they are compared to (ARGS=--write: into docs/benchmarks.md)
	@$(BIN)/python -m benchmarks $(ARGS)

bench-compare: setup ## the same benchmarks of another commit in turn: make bench-compare REF=v0.1.0 ARGS="commit-local open-local"
	@$(BIN)/python -m benchmarks.compare $(REF) $(ARGS)

docs: setup ## the documentation as a site, in docs/site
	@$(BIN)/python -m tests.tools.site

licences: $(BIN)/python ## refuse licences that are not permissive, in all that is installed or shipped
	@$(BIN)/python tests/tools/licences.py $(wildcard .venv-extras-*/lib/python*/site-packages)

changes: $(BIN)/python ## print the section of the changelog that the fragments in changes/ make
	@$(BIN)/towncrier build --draft --version next

release-check: setup viewer ## everything that a release needs, in a table (ARGS="versions golden": only these checks)
	@$(BIN)/python -m tests.tools.release --torch "$(TORCH)" $(ARGS)

api: setup viewer/node_modules/.ok ## describe the HTTP API anew, and make the viewer's types of it
	$(BIN)/python server/make_openapi.py
	cd viewer && npm run --silent types

viewer: $(STATIC) ## build the browser viewer into the server's package (needs npm)

viewer/node_modules/.ok: viewer/package.json viewer/package-lock.json
	@test -n "$(NPM)" || { echo "make: building the viewer needs Node.js with npm" >&2; exit 1; }
	cd viewer && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(STATIC): viewer/node_modules/.ok $(VIEWER_SOURCES)
	cd viewer && npm run --silent build
	@touch $@

clean: ## remove what these commands made, but not .venv and .venv-extras-*
	rm -rf .demo .benchmarks dist build docs/site .pytest_cache .hypothesis .ruff_cache .import_linter_cache
	rm -rf viewer/node_modules server/tensorlake_server/static
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
