# Each of these sets up all that it needs, in .venv/; what is set up already is not set up again.
#
#   make demo     a trained MobileNetV2 reads real pictures through the course's own CUDA kernels
#   make lab      your own copies of the chapters, in work/, opened in JupyterLab
#   make test     the tests and every notebook, two files at a time; kernels are compiled with -O1 for it
#   make test-all what takes long as well: stress, fuzzers, more cards, more shapes, with new random numbers each time
#   make doctor   what is installed, what is missing, what to do about it
#   make lint     code quality alone
#   make clean    removes the set-up; what the kernels' cache holds stays
#
# Without make: python3 bootstrap.py, then .venv/bin/python -m common demo

# Another Python, 3.11 to 3.13, to set up with: make PYTHON=python3.12 demo
PYTHON ?= python3
PY := .venv/bin/python

.PHONY: demo lab test test-all doctor lint clean setup

demo: setup
	@$(PY) -m common demo

lab: setup
	@$(PY) -m common lab

test: setup
	@COURSE_CXXFLAGS="$${COURSE_CXXFLAGS--O1}" $(PY) -m pytest --nbval -n 2 --dist loadfile --durations=10

test-all: setup
	@COURSE_SEED="$${COURSE_SEED-$$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}" \
	COURSE_CXXFLAGS="$${COURSE_CXXFLAGS--O1}" $(PY) -m pytest --nbval --all -n 2 --dist loadfile --durations=10

doctor: setup
	@$(PY) -m common doctor

lint: setup
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	.venv/bin/lint-imports

setup:
	@$(PYTHON) bootstrap.py

clean:
	rm -rf .venv
