# make setup: .venv.   make report: comparisons on a simulated panel and on valuation multiples.   make test: lint, types, tests, doctests.
# make docs: the documentation site in build/docs.   make release: wheel and sdist, each tried in a clean environment.
# All first make .venv (Python 3.11 or later; choose one with make PYTHON=...), and only when something changed.

.PHONY: setup report test docs release clean
.DEFAULT_GOAL := report

# Whatever environment is active must not leak in; how to reach the package index must.
PIP_REACH := INDEX_URL EXTRA_INDEX_URL FIND_LINKS NO_INDEX CERT CLIENT_CERT TRUSTED_HOST PROXY TIMEOUT DEFAULT_TIMEOUT \
             RETRIES CACHE_DIR NO_CACHE_DIR CONFIG_FILE KEYRING_PROVIDER DISABLE_PIP_VERSION_CHECK
unexport $(filter-out $(addprefix PIP_,$(PIP_REACH)),$(filter PIP_%,$(.VARIABLES)))
unexport $(filter VIRTUAL_ENV% CONDA_% PYTHON% PYTEST_% MYPY% RUFF_%,$(.VARIABLES))

# The stamp is named after what the environment is made from, and is written last: half an environment has none.
KEY   := $(shell { pwd; cat pyproject.toml constraints.txt; } | cksum | tr ' ' '-')
STAMP := .venv/made-$(KEY)
$(shell .venv/bin/python -c "" 2>/dev/null || rm -f .venv/made-*)

setup: $(STAMP)

# Two at a time, one thread each: on matrices this small more would only wait for each other, very long on a busy machine.
COMPARE := OMP_NUM_THREADS=1 .venv/bin/python -m peerattn compare
report: $(STAMP)
	@mkdir -p report; \
	$(COMPARE) --dataset simulated --test-periods 20 --refit-every 20 --out report/simulated >report/simulated.txt 2>&1 & \
	$(COMPARE) --dataset multiples --task nowcast --models industry_median,kernel,attention \
	  --out report/multiples; multiples=$$?; \
	wait $$!; simulated=$$?; echo; cat report/simulated.txt; \
	echo; echo "your own file: .venv/bin/peerattn describe FILE"; exit $$((multiples + simulated))

# mypy runs beside the tests, on what is left of the processors; its errors come last.
test: $(STAMP)
	.venv/bin/python -m ruff check .
	.venv/bin/python -m ruff format --check -q peerattn tests benchmarks
	@.venv/bin/python -m mypy >.venv/types.txt 2>&1 & types=$$!; \
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest -q --numprocesses logical --maxprocesses 4 --dist worksteal; tests=$$?; \
	wait $$types || { cat .venv/types.txt; exit 1; }; exit $$tests

# Executes the course and the gallery; warnings are errors. What only it needs is installed on its first run.
docs: .venv/made-docs-$(KEY)
	@OMP_NUM_THREADS=1 .venv/bin/python -m sphinx -q -W --keep-going -j 2 docs build/docs
	@echo "build/docs/index.html"

.venv/made-docs-$(KEY): $(STAMP)
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-user --constraint constraints.txt --editable '.[docs]'
	@touch $@

$(STAMP):
	@if [ -L .venv ]; then \
	  echo ".venv is a link to $$(readlink .venv), another environment, which would be emptied. Remove the link to make one here." >&2; \
	  exit 1; \
	fi
	@for candidate in $(or $(PYTHON),python3 python3.11 python3.12 python3.13 python3.14 python); do \
	  if $$candidate -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    found=$$candidate; break; \
	  fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "No Python 3.11 or later with venv was found (looked at: $(or $(PYTHON),python3 python3.11 ... python)). Name one: make PYTHON=/path/to/python3" >&2; \
	  exit 1; \
	fi; \
	echo "Making .venv with $$($$found --version); the first time takes some minutes."; \
	$$found -m venv --clear .venv
	@.venv/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --no-user --constraint constraints.txt --editable '.[dev]'
	@touch $@

release: $(STAMP)
	.ci/release

clean:
	rm -rf .venv report build dist docs/learn docs/learn_core docs/gallery docs/reference/generated .mypy_cache .pytest_cache .ruff_cache
