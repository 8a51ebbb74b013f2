"""The notebook's cell about numbers as text refuses wrong answers, which would make the revealed number wrong."""

import json

import numpy as np
import pytest
from answers import FOLDER

from common.lab import markup

NOTEBOOK = FOLDER.parents[1] / "02_weights" / "1_extract_the_weights.ipynb"
ROUNDED = ".astype(np.float32)"


def cell(name: str) -> str:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    text = next("".join(one["source"]) for one in cells if "def " + name in "".join(one["source"]))
    assert markup.regions(text, False)
    return text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (ROUNDED, "", "3 digits: yours is 0.25, expected 0.5"),
        ("return np.mean(back == values)", "return 100 * np.mean(back == values)", "yours is 50.0, expected 0.5"),
        ("return np.mean(back == values)", "return np.sum(back == values)", "yours is 2, expected 0.5"),
        ("return np.mean(back == values)", "return np.mean(back != values)", "5 digits: yours is 0.0, expected 1"),
        ("{value:.{digits}g}", "{value:.7g}", "yours is 1.0, expected 0.5"),
        ("{value:.{digits}g}", "{value:.3g}", "5 digits: yours is 0.5, expected 1"),
        ("{value:.{digits}g}", "{value:.{digits}f}", "yours is 1.0, expected 0.5"),
    ],
)
def test_wrong_answers_are_refused(old, new, said):
    text = cell("share_exact")
    first = text.index(old)
    with pytest.raises(AssertionError, match=said):
        exec(text[:first] + new + text[first + len(old) :], {"np": np})


def test_the_right_answer_passes(capsys):
    exec(cell("share_exact"), {"np": np})
    assert capsys.readouterr().out.startswith("✓")
