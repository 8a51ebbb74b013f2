"""An exercise that a notebook asks for is checked there, before another cell uses the answer."""

import json
import re
from pathlib import Path

import pytest

from common.check.exercises import REPOSITORY
from common.report import generated

NOTEBOOKS = sorted(REPOSITORY.glob("[0-9][0-9]_*/*.ipynb"))


def unchecked(cells) -> list[str]:
    """The exercises that no cell checks: neither their own, by its magic, nor the next code cell, by check.run."""
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    found = []
    for cell, following in zip(code, [*code[1:], {"source": ""}], strict=True):
        for tag in cell["metadata"].get("tags", []):
            if not tag.startswith("exercise-"):
                continue
            name = tag.removeprefix("exercise-")
            own = re.match(rf"%%(exercise {name}\b|engine kernels/)", generated.source(cell))
            after = f'check.run("{name}"' in generated.source(following)
            if not own and not after:
                found.append(name)
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_exercise_is_checked(path: Path):
    assert unchecked(json.loads(path.read_text(encoding="utf-8"))["cells"]) == []


def exercise(source, name="double"):
    return {"cell_type": "code", "source": source, "metadata": {"tags": [f"exercise-{name}"]}}


PLAIN = {"cell_type": "code", "source": "print(double(2))", "metadata": {}}
CHECK = {"cell_type": "code", "source": 'check.run("double", double)', "metadata": {}}
HINTS = {"cell_type": "markdown", "source": "<details>", "metadata": {}}
FUNCTION = exercise("def double(x): ...")


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ([FUNCTION, HINTS, CHECK, PLAIN], []),
        ([exercise("%%exercise double\nvoid")], []),
        ([exercise("%%engine kernels/double.cu\nvoid")], []),
        ([FUNCTION, HINTS, PLAIN], ["double"]),
        ([FUNCTION], ["double"]),
        ([FUNCTION, PLAIN, CHECK], ["double"]),  # too late: a cell has used it
        ([exercise("%%exercise doubled\nvoid")], ["double"]),
    ],
)
def test_the_rule(cells, found):
    assert unchecked(cells) == found
