"""Measuring on a GPU, suite by suite: python -m common bench SUITE (chapters 03 and 06).

    network     MobileNetV2 as a whole: ours, cuDNN's, and on PyTorch and XLA as others run it
    chain       the same on ours alone, from the first rungs to all that makes it fast, one thing after the other
    operators   each of its steps alone, on cuDNN and on ours
    kernels     every rung of our own operators beside cuDNN and cuBLAS
    plans       a few convolutions in every way to ask cuDNN for them
    sparse      convolutions that skip zeros of their input: how many there are, from how many on it pays
    profile     each kernel of ours under ncu: which resource is busy, what its warps wait for
    peaks       what the card can do at best: bytes a second, FLOPs a second
    trace       what the simulator's trace counts, against what the profiler counts

and python -m common energy: millijoules per image. commands.py has the commands, driver.py what the suites share.
Times are kept only of what computed the right thing.
"""
