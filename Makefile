# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow fuzz mutants check docs picture bench install

demo: .venv/demo    ## collect, train, evaluate and report on FourRooms, end to end
	$(BIN)/sdil demo --out demo --overwrite

test: install       ## the tests, in a few minutes; those marked slow are left to `make test-slow`
	$(BIN)/python -m pytest -n auto --dist loadgroup -m "not slow"

test-slow: install  ## the tests that take long: whole runs, workers, Ray, benchmarks
	$(BIN)/python -m pytest -n auto --dist loadgroup -m slow

fuzz: install       ## ten thousand made-up inputs: a right answer or one clear sentence
	SDIL_FUZZ=10000 $(BIN)/python -m pytest -n auto --dist loadgroup tests/fuzz tests/formats/test_damage.py

mutants: install    ## 150 small mistakes in the core: how many do the tests notice?
	$(BIN)/python tools/mutants.py

check: install      ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: install       ## the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

picture: install demo  ## README's picture, of today's demo (needs Chromium; a minute)
	$(BIN)/python tools/screenshot.py demo/report.html docs/images/report.png

bench: install      ## figures of the README and the documentation, measured on this machine
	$(BIN)/python benchmarks/training_speed.py
	$(BIN)/python benchmarks/discovery_speed.py
	$(BIN)/python benchmarks/rollout_speed.py
	$(BIN)/python benchmarks/training_memory.py
	$(BIN)/python benchmarks/study_overhead.py
	$(BIN)/python benchmarks/load_check.py
	$(BIN)/python benchmarks/demonstrators.py
	$(BIN)/python benchmarks/walks.py
	$(BIN)/python benchmarks/curation.py
	$(BIN)/python benchmarks/pictures.py
	for study in benchmarks/*.toml; do $(BIN)/sdil study run $$study || exit 1; done

install: .venv/installed

# Two stamps: the demo needs the package alone, developers its tools as well.
.venv/demo: pyproject.toml constraints.txt
	@echo "Setting up .venv for the demo: sdil and what it needs, PyTorch the largest part; some minutes."
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/installed: .venv/demo
	@echo "Adding the tools of developers: tests, types, documentation, Ray; some more minutes, once."
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	$(BIN)/python -m pip install --quiet --no-deps robomimic==0.3.0  # tests read with it; not its simulators
	touch $@
