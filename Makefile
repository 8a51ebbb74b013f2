# Each of these sets up all that it needs, in .venv/; what is set up already is not set up again.
#
#   make demo     a trained MobileNetV2 reads real pictures through the course's own CUDA kernels
#   make lab      your own copies of the chapters, in work/, opened in JupyterLab
#   make test     the tests and every notebook, two files at a time; kernels are compiled with -Og for it; what costs
#                 seconds, and what tests try in many alike cases, takes turns, from commit to commit
#   make test-all what takes long as well: stress, fuzzers, clang, more cards, more shapes, with new random numbers each
#                 time; estimated at an hour on two idle cores
#   make site     the course as a website, in site/, to be opened at site/index.html; in a minute or two, offline
#   make doctor   what is installed, what is missing, what to do about it
#   make lint     code quality alone
#   make lock     after a change of the dependencies in pyproject.toml: what requirements/ pins; deleted first, all newest
#   make clean    removes the set-up; what the kernels' cache holds stays
#
# Without make: python3 bootstrap.py, then .venv/bin/python -m common demo

# Another Python, 3.11 to 3.13, to set up with: make PYTHON=python3.12 demo
PYTHON ?= python3
PY := .venv/bin/python

.PHONY: demo lab site test test-all doctor lint lock clean setup

demo: setup
	@$(PY) -m common demo

lab: setup
	@$(PY) -m common lab

# Two files at a time, in the order of conftest.py; what is compiled, Python as well, is kept for the other processes
PYTEST = PYTHONDONTWRITEBYTECODE= $(PY) -m pytest --nbval -n 2 --dist loadfile --no-loadscope-reorder --durations=10

# SITE_REPOSITORY=https://github.com/…: where its links to files lead; see site_src/course_site.py
site: setup
	@$(PY) site_src/course_site.py

test: setup
	@$(PYTEST)

test-all: setup
	@COURSE_SEED="$${COURSE_SEED-$$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}" $(PYTEST) --all

doctor: setup
	@$(PY) -m common doctor

lint: setup
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	.venv/bin/lint-imports

# One file serves Python 3.11 to 3.13 on Linux and macOS. The wheels of CUDA's toolkit are named one by one, as the
# package of that name, a list of them, is PyTorch's.
UV = .venv/bin/uv pip compile pyproject.toml --universal --python-version 3.11 --quiet --no-annotate \
	--custom-compile-command "make lock"

lock: setup
	$(PY) -m pip install --quiet uv
	$(UV) --extra reference --extra notebooks --extra test --extra site -o requirements/base.txt
	$(UV) --extra gpu -c requirements/base.txt --no-emit-package cuda-toolkit -o requirements/gpu.txt
	$(UV) --extra gpu13 -c requirements/base.txt --no-emit-package cuda-toolkit -o requirements/gpu13.txt

setup:
	@$(PYTHON) bootstrap.py

clean:
	rm -rf .venv
