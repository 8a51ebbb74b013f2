"""The files of the learner's engine: which notebook writes each, and what it must define, as milestones require."""

from dataclasses import dataclass, field

from .operators import OPERATORS


@dataclass(frozen=True)
class EngineFile:
    """One file of the engine.

    chapter, notebook   the notebook that writes it
    defines             {signature: description} of what it must define
    needs               the files that it imports
    elsewhere           {part: notebook} of parts that another notebook writes
    kept                {part: heading} of parts that are answers to exercises, saved with `keep` under that heading
    exercise            the exercise that checks the file before it is saved, "" for none
    """

    chapter: int
    notebook: str
    defines: dict[str, str]
    needs: tuple[str, ...] = ()
    elsewhere: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    exercise: str = ""

    def notebook_of(self, part: str) -> str:
        """The notebook that writes a part of the file."""
        return self.elsewhere.get(part, self.notebook)


_GRAPH = {
    "read(model) -> Graph": "the layers of an ONNX model, a path or an onnx.ModelProto; an open batch size is 1",
    "Graph": "input (a tensor's name), input_shape, output (a tensor's name), layers, each after those that it reads",
    "Layer.op": "Conv2d, BatchNorm2d, ReLU6, ReLU, ResidualAdd, MaxPool2d, GlobalAveragePool, Concat (of channels) or"
    " Linear; what keeps the order of the elements (Flatten, Reshape, Identity, …) is no layer",
    "Layer.inputs, Layer.output": "names of the activations that it reads (a list of layers' outputs and"
    " Graph.input), and of the one that it writes",
    "Layer.weights": 'names in the file by role: "weight" and "bias" (absent if there is none), of a BatchNorm2d'
    ' "gamma", "beta", "mean", "var". A constant added after a Conv or MatMul is its bias.'
    " An array to which an Identity gives a further name has the name under which the file stores it",
    "Layer.attributes": "Conv2d: stride, dilation (vertical, horizontal), padding ((top, bottom), (left, right)),"
    " groups; MaxPool2d: kernel_size, stride, padding; BatchNorm2d: eps; Linear: transposed, True if the weight in the"
    " file is (in_features, out_features), as of a MatMul and of a Gemm without transB = 1",
    "Layer.shape": "of the output, batch first: (N, C, H, W); of a Linear (N, out_features)",
    "Layer.macs, Layer.bytes": "multiply-adds of Conv2d and Linear, else 0; inputs, output and weights, once each, at 4"
    " bytes per number",
}
_WEIGHTS = {
    "extract(model, graph) -> arrays": "{layer.output: {role: array}}, in the type that the file has; the weight of a"
    " Linear is (out_features, in_features), a bias (channels,)",
    "fold(graph, arrays) -> (graph, arrays)": "without the batch-norms that follow a convolution whose output nobody"
    " else reads; the convolution's arrays are the folded weight and bias",
}
_PLAN = {
    "fuse(graph) -> steps": "which layers share a launch: a convolution with its ReLU6 and its ResidualAdd",
    "live_ranges(steps) -> {tensor: (first, last)}": "the steps between which a tensor has to be kept",
    "arena(steps) -> ({tensor: offset}, size)": "a place for each activation in one buffer, in bytes",
}
_ENGINE = {
    "bind(model) -> Engine": "kernels compiled, weights and arena in the device's memory",
    "run(engine, x) -> logits": "one inference: x (N, C, H, W), logits (N, classes)",
}


def _kernel(name: str, notebook: str) -> EngineFile:
    """The file of a kernel, launched as its first comment says (launch_lines.py)."""
    operator = OPERATORS[name]
    return EngineFile(
        4, f"04_kernels/{notebook}.ipynb", {operator.signature: operator.meaning}, exercise=f"engine_{name}"
    )


_LIST = "01_topology/3_list_any_network.ipynb"
_FOLD = "02_weights/2_fold_the_batch_norm.ipynb"

FILES: dict[str, EngineFile] = {
    "graph.py": EngineFile(
        1, "01_topology/2_read_an_onnx_graph.ipynb", _GRAPH,
        elsewhere=dict.fromkeys(("same_padding", "window", "describe", "cost", "read"), _LIST),
        kept={"clip_bounds": "4 · What kind of layer is a node?", "same_padding": "2 · Padding"},
    ),
    "weights.py": EngineFile(
        2, "02_weights/1_extract_the_weights.ipynb", _WEIGHTS, ("graph.py",),
        elsewhere={"fold_conv_bn": _FOLD, "fold": _FOLD}, kept={"fold_conv_bn": "4 · All 52, in your engine"},
    ),
    "kernels/add.cu": _kernel("add", "2_add"),
    "kernels/pool.cu": _kernel("pool", "4_global_average_pool"),
    "kernels/gemm.cu": _kernel("gemm", "5_gemm"),
    "kernels/conv.cu": _kernel("conv", "9_convolution_as_gemm"),
    "kernels/pointwise.cu": _kernel("pointwise", "10_pointwise"),
    "kernels/depthwise.cu": _kernel("depthwise", "11_depthwise"),
    "plan.py": EngineFile(5, "05_network/1_from_layers_to_a_plan.ipynb", _PLAN, ("graph.py",)),
    "engine.py": EngineFile(
        5, "05_network/3_against_onnx_runtime.ipynb", _ENGINE, ("graph.py", "weights.py", "plan.py")
    ),
    "kernels/block.cu": EngineFile(
        6, "06_optimize/5_fusion.ipynb", {"block(in, weights, out, sizes)": "an inverted residual in one launch"}
    ),
}  # fmt: skip
