"""Notebooks' kernels for nbval, forked from a process that has imported what notebooks import.

The imports of PyTorch, Matplotlib, ONNX Runtime and this course take three seconds of a processor, and there are fifty
notebooks.
"""

import multiprocessing
import os
import signal
import time
from typing import Any
from unittest import mock

from jupyter_client.provisioning import local_provisioner

IMPORTED = [
    "ipykernel.kernelapp", "matplotlib.pyplot", "matplotlib_inline.backend_inline", "pandas", "onnxruntime",
    "sklearn.datasets", "torch", "common.check", "common.draw", "common.kernels", "common.network",
]  # fmt: skip
BACKEND = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}  # of a kernel, read when Matplotlib is imported


class Kernel:
    """A kernel's process with what jupyter_client asks of a subprocess.Popen."""

    stdin = stdout = stderr = None

    def __init__(self, process: Any) -> None:
        self._process = process
        self.pid: int = process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        self._process.join(timeout)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run_kernel(arguments: list[str], environment: dict[str, str], folder: str | None) -> None:
    """What the process does that is forked: it is a kernel in this environment and working directory."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder or ".")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    from ipykernel import kernelapp

    # it ends when the process that it was forked from does
    kernelapp.launch_new_instance([*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"])


def install() -> None:
    """From now on jupyter_client forks the kernels of Python that this process asks for."""
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(IMPORTED)
    started = local_provisioner.launch_kernel

    def launch(cmd: list[str], env: dict[str, str] | None = None, cwd: str | None = None, **options: Any) -> Any:
        if "ipykernel_launcher" not in cmd:
            return started(cmd, env=env, cwd=cwd, **options)
        arguments = cmd[cmd.index("ipykernel_launcher") + 1 :]
        process = forking.Process(target=run_kernel, args=(arguments, dict(os.environ if env is None else env), cwd))
        with mock.patch.dict(os.environ, BACKEND):  # the first one starts the process that imports
            process.start()
        while process.exitcode is None and os.getpgid(process.pid) != process.pid:
            time.sleep(0.01)  # until its group is its own: whoever interrupts the kernel interrupts its group
        return Kernel(process)

    local_provisioner.launch_kernel = launch
