"""MobileNetV2 from its description to an inference engine of your own, one module a chapter.

    topology   01  what the layers are: the t, c, n, s table, an ONNX file as a list of layers
    weights    02  their numbers: out of ONNX, folded, saved, trained, seeded
    cudnn      03  the operators on NVIDIA's libraries, the opponent
    kernels    04  the operators, a ladder of CUDA C++ files each
    network    05  layers + weights + a backend: pictures in, class scores out
    cuda           launching CUDA C++: CuPy on a GPU, the simulator elsewhere
    measure        instruments: timing, energy, rooflines
    report         results, and the tables and plots made from them
    bench          what is measured, suite by suite, on ours, cuDNN and the peers
    check          exercises: a learner's answer against its check

Importing the package touches no GPU and compiles nothing.
"""

__version__ = "0.1.0"
