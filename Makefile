# Every target makes its own .venv on a machine that has python3 (3.11 or newer), pip and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo check test slow lint bench validation results docs wheel figures clean

demo: $(VENV)/.demo   ## three modes from one: SAHMC beside plain HMC, under a minute
	$(BIN)/sahmc demo --out out/demo.png

check:   ## what a reviewer would do: style and types, the tests, the documentation, the wheel by itself
	@for part in lint test docs wheel; do \
	  began=$$(date +%s); \
	  $(MAKE) --no-print-directory $$part || exit 1; \
	  echo "make $$part: $$(($$(date +%s) - began)) s"; \
	done

test: $(VENV)/.test   ## the test suite; the claims by themselves, because they are compiled with more optimisation
	$(BIN)/python -m pytest -n 2 --dist loadfile tests --ignore tests/claims
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/claims

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
	rm -rf $(VENV) out docs/_build
