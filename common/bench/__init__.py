"""Measuring on a GPU, suite by suite: python -m common bench SUITE (chapters 03 and 06).

    network     the whole MobileNetV2: this project's kernels, cuDNN, PyTorch and XLA
    chain       the same on this project's kernels alone, from the first rungs on, one optimization added at a time
    operators   each step of MobileNetV2 alone, on cuDNN and on this project's kernels
    kernels     every rung of this project's operators, compared with cuDNN and cuBLAS
    plans       a few convolutions, expressed to cuDNN in every possible way
    sparse      convolutions that skip zeros of their input: how many zeros there are, and the break-even sparsity
    fp8         the 1×1 convolutions of the 7×7 stage in fp16, int8 and fp8
    two-of-four 1×1 convolutions whose weights have two zeros in four, beside dense ones
    profile     each kernel of the network under ncu: which resources are busy, why warps stall
    errors      the error of whole networks against float64, in each arithmetic that counts as fp32
    peaks       the peaks of the card: bytes per second, FLOPs per second
    candidates  many tiles of a few fused blocks, those that the cost model prefers and a random control
    families    torchvision's networks, a U-Net: how far off ours is from float64, beside ONNX Runtime
    pipeline    pictures per second of decoding, copying and computing, alone and together; runs without a GPU, too
    scaling     pictures per second with one GPU and with more; runs without a GPU, too
    load        latency of the service against offered load; runs without a GPU, too
    trace       counts of the simulator's trace, compared with those of the profiler

and python -m common energy: millijoules per image. The commands are in commands.py, the suites' common code in
driver.py. Only times of implementations with correct results are kept.
"""
