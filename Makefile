# Every target makes its own .venv on a machine that has python3 (3.11 or newer), pip and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test slow lint bench validation results docs figures clean

demo: $(VENV)/.demo   ## three modes from one: SAHMC beside plain HMC, under a minute
	$(BIN)/sahmc demo --out out/demo.png

test: $(VENV)/.test   ## the test suite
	$(BIN)/python -m pytest -n 2 --dist worksteal

slow: $(VENV)/.test   ## the tests that take minutes each: small versions of the paper's experiments
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

lint: $(VENV)/.lint   ## style and types
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

bench: $(VENV)/.bench   ## time of one transition of HMC and NUTS beside BlackJAX
	$(BIN)/python benchmarks/transition.py && $(BIN)/python benchmarks/kernels.py nuts

validation: $(VENV)/.demo   ## every target with a known answer, 20 seeds, three budgets: hours on two cores
	$(BIN)/python benchmarks/validation.py run && $(BIN)/python benchmarks/validation.py table out/validation.csv

results: $(VENV)/.demo   ## every experiment of the paper at full size: hours; networks want a GPU
	$(BIN)/sahmc paper all --out docs/results

docs: $(VENV)/.docs   ## HTML pages in docs/_build
	$(BIN)/sphinx-build -q -W -b html docs docs/_build

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
