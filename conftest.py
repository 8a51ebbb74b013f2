"""What all of pytest shares: pictures in HTML outputs of notebooks are not compared byte by byte.

nbval leaves image/png out of its comparison. The same picture within an <img> of text/html differs as well between
machines and releases of Matplotlib, so its bytes are replaced on both sides. Left out as well is how many cases a
check of an exercise has tried. Everything else is compared.

Outputs of cells with the tag `machine-code` come from NVIDIA's compiler. They are compared where it is the one that
requirements/base.txt pins, and another one may make other machine code.

What tests draw at random is the same in every run, or what COURSE_SEED=... says. What tests/tiers.py says of two tiers
is done here: --all runs everything.
"""

import gc
import importlib.metadata
import importlib.util
import os
import re
import sys
from pathlib import Path

import forked_kernels
import pytest
from _pytest.assertion import rewrite
from tiers import covering, has_turn, names_changed, notebook_has_turn, part, share_of, turn

# What takes long in one file begins first, so that two workers end together
FIRST = ["tests/check/test_exercises.py", "tests/browser/", "tests/many/test_on_ray.py", "tests/kernels/",
         "tests/optimize/", ".ipynb", "tests/check/test_copies_run.py", "tests/network/",
         "tests/test_code_quality.py"]  # fmt: skip
QUICKLY_COMPILED = "-Og"  # in COURSE_CXXFLAGS


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests that are marked `long` as well")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--all"):
        os.environ["COURSE_TESTS"] = "all"  # read by tests/tiers.py, in the workers too
    # kernels of some thousand shapes, each launched once: -Og compiles in half of the time
    os.environ.setdefault("COURSE_CXXFLAGS", QUICKLY_COMPILED)
    os.environ.setdefault("COURSE_SEED", "1")  # for the workers and for the notebooks' kernels as well
    for library in ("OMP", "OPENBLAS"):  # threads that wait for one another burn the cores of the other worker
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    if getattr(config.option, "hypothesis_seed", "no hypothesis") is None:
        config.option.hypothesis_seed = int(os.environ["COURSE_SEED"])
    turn()  # for the workers, too
    if sys.platform == "linux":
        forked_kernels.install()
    if hasattr(config, "workerinput") and not sys.dont_write_bytecode:
        rewrite_share(config)
    gc.disable()  # while tests are collected, nearly all that is made stays
    if getattr(config.option, "nbval_sanitize_with", "no nbval") is None:
        config.option.nbval_sanitize_with = str(Path(__file__).parent / "tests" / "nbval_sanitize.cfg")


def rewrite_share(config: pytest.Config) -> None:
    """Rewrite the asserts of this worker's share of the tests, where that has not been done yet, for the other workers.

    In a fresh clone each worker would rewrite all of them, for fifteen seconds. The first one begins to collect.
    """
    number, count = int(config.workerinput["workerid"].removeprefix("gw")), config.workerinput["workercount"]  # type: ignore[attr-defined]
    paths = sorted((Path(__file__).parent / "tests").rglob("test_*.py"))
    for path in paths[len(paths) * number // count :][: len(paths) // count + 1] if number else []:
        folder = rewrite.get_cache_dir(path)
        cached = folder / (path.name[:-3] + rewrite.PYC_TAIL)
        if rewrite.try_makedirs(folder) and rewrite._read_pyc(path, cached) is None:
            digest, code = rewrite._rewrite_test(path, config)
            rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, digest, cached)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The kernel of a notebook that runs whole networks gets what compiles longer and runs in a third of the time."""
    if item.path.suffix == ".ipynb":
        os.environ["COURSE_CXXFLAGS"] = "" if item.path.parent.name == "05_network" else QUICKLY_COMPILED


def pytest_report_header() -> list[str]:
    everything = (
        ["everything: estimated at an hour on two idle cores"] if os.environ.get("COURSE_TESTS") == "all" else []
    )
    return [f"COURSE_SEED={os.environ['COURSE_SEED']} COURSE_TURN={os.environ.get('COURSE_TURN')}", *everything]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("COURSE_TESTS") != "all":
        left = left_out(items)
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]
    if not pinned_compiler():
        for item in items:
            if "machine-code" in tags_of(item):
                item.options["check"] = False  # type: ignore[attr-defined]
    items.sort(key=lambda item: next((i for i, name in enumerate(FIRST) if name in item.nodeid), len(FIRST)))


def file_of(item: pytest.Item) -> str:
    """The path of a test's file in the repository."""
    return item.path.relative_to(Path(__file__).parent).as_posix()


def tags_of(item: pytest.Item) -> list[str]:
    """The tags of a notebook's cell; none for other items."""
    return getattr(getattr(item, "cell", None), "metadata", {}).get("tags", [])


def pinned_compiler() -> bool:
    """Whether kernels are compiled to machine code by the compiler that requirements/base.txt pins, and on no GPU."""
    pins = (Path(__file__).parent / "requirements" / "base.txt").read_text(encoding="utf-8")
    name = "nvidia-cuda-nvrtc-cu12"
    pinned = re.search(rf"^{name}==(\S+)", pins, re.MULTILINE)
    try:
        installed = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return pinned is not None and pinned[1] == installed and importlib.util.find_spec("cupy") is None


def pytest_collection_finish() -> None:
    """The garbage collector leaves alone what collecting made: twelve thousand tests, half a second for each visit."""
    gc.collect()
    gc.freeze()
    gc.enable()


def left_out(items: list[pytest.Item]) -> set[pytest.Item]:
    """What only `make test-all` runs: what is marked or tagged `long`, and most combinations of parameters; what has
    no turn.
    """
    left = {item for item in items if item.get_closest_marker("long") or "long" in tags_of(item)}
    left |= {item for item in items if item.path.suffix == ".ipynb" and not notebook_has_turn(file_of(item))}
    paces = {}
    for item in items:
        for node in item.listchain():  # the test or its file
            for mark in (mark for mark in node.own_markers if mark.name == "seldom"):
                paces[item.nodeid.partition("[")[0]] = mark.args[0]
                if not has_turn(node.nodeid.partition("[")[0], mark.args[0]):
                    left.add(item)
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if hasattr(item, "callspec") and item not in left:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    number = turn()
    for name, several in tests.items():
        taken = several
        if sum(1 for _ in several[0].iter_markers("parametrize")) > 1:
            taken = [several[i] for i in covering([combination(item) for item in several])]
        if number is not None and (share := share_of(name)) > 1:
            # (not every test's first part at once; of one that runs seldom, another part each time)
            chosen = part([combination(item) for item in taken], share, number // paces.get(name, 1) + len(name))
            taken = [item for i, item in enumerate(taken) if i in chosen or names_changed(item.nodeid)]
        left |= set(several) - set(taken)
    return left


def combination(item: pytest.Item) -> tuple:
    """What each of a test's parameters is here. Parameters that one decorator gives together are one, but for types,
    which count by themselves: of ("variant", "dtype"), [("naive", float32), …] both do.
    """
    given = item.callspec.params  # type: ignore[attr-defined]
    values: list = []
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0].replace(" ", "").split(",") if isinstance(mark.args[0], str) else mark.args[0]
        together = tuple(id(given[name]) for name in names if not isinstance(given[name], type))
        values += [given[name] for name in names if isinstance(given[name], type)] + [together] * bool(together)
    return tuple(values)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What fuzzers have tried, a line each: tests say it by record_property("fuzzed", ...)."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    lines = [text for report in reports for name, text in report.user_properties if name == "fuzzed"]
    if lines:
        terminalreporter.section("fuzzers")
        terminalreporter.write("\n".join(lines) + "\n")
