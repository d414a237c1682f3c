# Every target makes its own .venv on a machine that has python3 (3.11 or newer), pip and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
INSTALL := $(BIN)/python $(PIP_INSTALL) -c constraints.txt

# The newest Python that runs here. A shim of pyenv may not run, but what it stands for does.
PYTHON_NEWEST ?= $(shell for minor in 13 12 11; do \
  for found in python3.$$minor "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.$$minor.*/bin/python3; do \
    "$$found" -c "" 2>/dev/null && echo "$$found" && exit; done; done; echo python3)
NEWEST := .venv-newest

.PHONY: demo check test newest slow lint bench validation results docs wheel figures clean

demo: $(VENV)/.demo   ## three modes from one: SAHMC beside plain HMC, under a minute
	$(BIN)/sahmc demo --out out/demo.png

check:   ## what a reviewer would do: style and types, the tests, the newest versions, the documentation, the wheel
	@for part in lint test newest docs wheel; do \
	  began=$$(date +%s); \
	  $(MAKE) --no-print-directory $$part || exit 1; \
	  echo "make $$part: $$(($$(date +%s) - began)) s"; \
	done

# Rooms whose tests also check types as they run, which costs a quarter of their time; one of them samples.
TYPED := $(addprefix tests/,_support barrier engine hamiltonian kernels models modes results symmetry tilt \
  sampling/test_sampling.py test_algorithm.py)

test: $(VENV)/.test   ## the test suite; many rooms check types as they run; the claims are compiled with more optimisation
	$(BIN)/python -m pytest -n 2 --dist loadfile --jaxtyping-packages=sahmc,beartype.beartype $(TYPED)
	$(BIN)/python -m pytest -n 2 --dist loadfile tests --ignore=tests/claims $(addprefix --ignore=,$(TYPED))
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/claims

newest:   ## what users install: the newest Python and dependencies, without pins; the demo and the tests that depend on them most
	test -x $(NEWEST)/bin/python || "$(PYTHON_NEWEST)" -m venv $(NEWEST)
	$(NEWEST)/bin/python $(PIP_INSTALL) --no-compile --upgrade --upgrade-strategy eager ".[test]"
	$(NEWEST)/bin/python --version && $(NEWEST)/bin/python -m pip list --disable-pip-version-check
	PYTHONPATH= $(NEWEST)/bin/sahmc demo --out out/demo-newest.png
	PYTHONPATH= $(NEWEST)/bin/python -m pytest -n 2 --dist loadfile -m newest tests

slow: $(VENV)/.test   ## the tests that take minutes each: small versions of the paper's experiments
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

lint: $(VENV)/.lint   ## style and types
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

bench: $(VENV)/.blackjax   ## nanoseconds a gradient of HMC and NUTS beside BlackJAX
	$(BIN)/python benchmarks/scaling.py --chains 1 10 100 1000 --tilts step linear tempered && \
	$(BIN)/python benchmarks/kernels.py nuts

validation: $(VENV)/.demo   ## every target with a known answer, 20 seeds, three budgets: hours on two cores
	$(BIN)/python benchmarks/validation.py run && $(BIN)/python benchmarks/validation.py table out/validation.csv

results: $(VENV)/.demo   ## every experiment of the paper at full size: hours; networks want a GPU
	$(BIN)/sahmc paper all --out docs/results

docs: $(VENV)/.docs   ## HTML pages in docs/_build/html; notebooks run side by side
	$(BIN)/sphinx-build -q -W -j 8 -b html docs docs/_build/html

wheel: $(BIN)/python   ## the demo by an installed wheel, in an environment and a folder of its own
	tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && \
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$$tmp" . && \
	$(BIN)/python -m venv "$$tmp/venv" && \
	"$$tmp/venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  "$$(echo "$$tmp"/sahmc-*.whl)[plots]" && \
	mkdir "$$tmp/empty" && cd "$$tmp/empty" && PYTHONPATH= "$$tmp/venv/bin/sahmc" demo --out "$$tmp/demo.png"

figures: $(VENV)/.demo   ## the pictures of README and docs
	$(BIN)/sahmc demo --out docs/figures/three_modes.png
	$(BIN)/python examples/energy_barrier.py --out docs/figures/energy_barrier.png
	$(BIN)/python benchmarks/figures.py docs/figures

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) -e ".[plots]" && touch $@

$(VENV)/.%: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) -e ".[$*]" && touch $@

clean:
	rm -rf $(VENV) $(NEWEST) out docs/_build
