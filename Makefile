# The two commands of the README are `make demo` and `make test`; each makes .venv, installs, and runs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
MADE   := $(VENV)/.installed

# Nothing here may reach a model or data hub, or send usage data.
export HF_HUB_OFFLINE = 1
export DO_NOT_TRACK = 1

# Two processes, each with whole files, in the order in which tests/conftest.py puts them.
BOTH = --numprocesses 2 --dist loadfile --no-loadscope-reorder

.PHONY: demo test soak lint bench clean

demo: $(MADE)
	$(BIN)/papermoth demo

test: $(MADE)
	$(BIN)/python -m pytest $(BOTH)

soak: $(MADE)
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest --timeout=3600 -m "soak or not soak"

lint: $(MADE)
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(MADE)
	$(BIN)/python benchmarks/mask.py
	$(BIN)/python benchmarks/corruptions.py
	$(BIN)/python benchmarks/stream.py

# torch comes first and alone: on machines where its CPU build is the only one at hand, a resolver that sees it last may
# choose another.
$(MADE): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; call make PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
