"""MobileNetV2 from its description to an inference engine of your own, one package per chapter.

    topology   01  layers: the t, c, n, s table, an ONNX file as a list of layers
    weights    02  parameters: extracted from ONNX, folded, saved, trained, seeded
    cudnn      03  the operators on NVIDIA's libraries, as a baseline
    kernels    04  the operators as ladders of CUDA C++ files
    network    05  layers + weights + a backend: from pictures to class scores
    cuda           launches CUDA C++: with CuPy on a GPU, on the simulator elsewhere
    measure        timing, energy, rooflines
    report         records of measurements, and tables and plots of them
    bench          the benchmark suites: this project, cuDNN and the peers
    check          exercises: checks of a learner's answers

Importing the package uses no GPU and compiles nothing.
"""

__version__ = "0.1.0"
