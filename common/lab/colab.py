"""Set up the course in Google Colab: `%run /content/course/common/lab/colab.py CHAPTER` in a notebook's first cell.

Colab has PyTorch, CuPy and most of what the course needs. What is missing is installed with pip, into Colab's own
Python; versions that fit are left as they are. Standard library only: when this runs, nothing else is sure to be there.
"""

import importlib
import importlib.metadata
import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLABS_OWN = ("jupyterlab", "ipykernel")  # Colab's page is no JupyterLab, and its kernel is running


def gpu_extra() -> str | None:
    """The extra of pyproject.toml for the GPU here: "gpu13" if PyTorch or CuPy is for CUDA 13, else "gpu"; or None."""
    sys.path.insert(0, str(ROOT))
    import bootstrap

    if not bootstrap.has_gpu():
        return None
    versions = {}
    for name in ("torch", "cupy-cuda12x", "cupy-cuda13x"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    cuda = re.search(r"\+cu(\d\d)", versions.get("torch", ""))
    thirteen = cuda[1] == "13" if cuda else "cupy-cuda13x" in versions
    return "gpu13" if thirteen else "gpu"


def requirements(extra: str | None) -> list[str]:
    """What pip is given: the package's dependencies, without those that Colab must keep as they are.

    extra: "gpu", "gpu13" or None. CUDA's toolkit is Colab's own.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["reference"], *extras["notebooks"], *(extras[extra] if extra else [])]
    kept = [one for one in wanted if not one.startswith((*COLABS_OWN, "cuda-toolkit"))]
    return [one.replace("[ctk]", "") for one in kept]


def set_up(chapter: str) -> None:
    """Install what is missing, and make this process one that works in a chapter's folder.

    chapter: its folder, "04_kernels". RuntimeError, with what pip said, if packages cannot be installed.
    """
    began = time.monotonic()
    extra = gpu_extra()
    print(f"Setting up the course {'with' if extra else 'without'} a GPU …", flush=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements(extra)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"packages could not be installed: {done.stdout[-2000:]}")
    os.chdir(ROOT / chapter)
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    print(f"done in {time.monotonic() - began:.0f} s: go on with the next cell")


if __name__ == "__main__":
    set_up(sys.argv[1])
    from IPython import get_ipython

    importlib.import_module("common.check").load_ipython_extension(get_ipython())
