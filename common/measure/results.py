"""Results files: what was measured, on which card, when, with what (DESIGN: 06_optimize/results/<gpu>.json)."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "06_optimize" / "results"


def path_of(gpu: str) -> Path:
    """The results file of a card: "NVIDIA H200" → 06_optimize/results/nvidia-h200.json."""
    return FOLDER / f"{'-'.join(gpu.lower().split())}.json"


def load(path: Path) -> dict[str, Any]:
    """The file's contents, {"runs": {id: environment}, "records": [...]}; empty if there is no file yet."""
    if not path.exists():
        return {"runs": {}, "records": []}
    return json.loads(path.read_text())


def save(path: Path, run: str, environment: dict[str, Any], records: list[dict[str, Any]]) -> None:
    """Adds a run. Records that it measures anew are replaced; the file is never half-written."""
    content = load(path)

    def identity(record: dict[str, Any]) -> tuple:
        keys = ("suite", "case", "implementation", "precision", "arithmetic", "batch", "mode")
        return tuple(record.get(key) for key in keys)

    anew = {identity(record) for record in records}
    content["records"] = [r for r in content["records"] if identity(r) not in anew]
    content["records"] += [{"run": run, **record} for record in records]
    content["runs"][run] = environment
    used = {record["run"] for record in content["records"]}
    content["runs"] = {key: value for key, value in content["runs"].items() if key in used}
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
        json.dump(content, file, indent=1)
        file.write("\n")
    os.replace(file.name, path)
