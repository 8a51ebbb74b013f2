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
    "dead_code(graph) -> graph": "a new graph without the layers that the output does not need, the others in order",
    "fuse(graph, arrays) -> steps": "a list of Step, in the order in which they run; each layer is in one of them",
    "Step": "kernel (the name of a kernel), layers (in order, each reads what the one before writes), workspace (bytes"
    " of scratch memory, 0 for none), inputs (the tensors that it reads, none of its own), output (a tensor)",
    "live_ranges(graph, steps) -> ranges": "{tensor: (bytes, first, last)}: the steps between which a tensor has to be"
    " kept, first and last included; the network's output until len(steps). A workspace is a tensor of any name",
    "arena(ranges) -> ({tensor: offset}, size)": "a place for each tensor in one buffer, in bytes: offsets are"
    " multiples of 256, and tensors that live at the same step have no byte in common",
    "make_plan(graph, arrays) -> plan": "of any graph that `fold` returns: steps, offsets and size. Two tensors may"
    " have one offset if the kernel `add` reads the first one for the last time and writes the second one: in place",
}
_ENGINE = {
    "bind(model) -> engine": "of a path or an onnx.ModelProto; an error for a layer that no kernel computes",
    "prepare(engine, shape) -> program": "for an input shape (N, C, H, W): plan (what make_plan returned), memory (the"
    " arena, an array of bytes on the device), launches (a function without arguments for each step, which launches"
    " kernels of engine.kernels and finds each tensor in the arena at its offset)",
    "run(engine, x) -> logits": "one inference: x (N, C, H, W) of any N, H and W, logits (N, classes); NumPy arrays of"
    " float32. x does not change",
}


def _kernel(name: str, notebook: str, chapter: int = 4) -> EngineFile:
    """The file of a kernel, launched as its first comment says (launch_lines.py). notebook: its path without suffix."""
    operator = OPERATORS[name]
    return EngineFile(chapter, f"{notebook}.ipynb", {operator.signature: operator.meaning}, exercise=f"engine_{name}")


_BLOCKS = {
    "bind(model) -> engine": "as that of engine.py, which it may use: each inverted residual is one step",
    "prepare(engine, shape) -> program": "as that of engine.py; the launch of such a step is one launch of the kernel"
    " block. Inverted residual: Conv2d 1×1, ReLU6, depthwise Conv2d 3×3 (padding 1, stride 1 or 2), ReLU6, Conv2d 1×1;"
    " and the ResidualAdd that adds the input of the first, if one does",
    "run(engine, x) -> logits": "as that of engine.py",
}
_LIST = "01_topology/3_list_any_network.ipynb"
_FOLD = "02_weights/2_fold_the_batch_norm.ipynb"
_OWN = "05_network/6_your_own_network.ipynb"

FILES: dict[str, EngineFile] = {
    "graph.py": EngineFile(
        1, "01_topology/2_read_an_onnx_graph.ipynb", _GRAPH,
        elsewhere=dict.fromkeys(("same_padding", "window", "describe", "cost", "read"), _LIST) | {"hard_swish": _OWN},
        kept={"clip_bounds": "4 · What kind of layer is a node?", "same_padding": "2 · Padding"},
    ),
    "weights.py": EngineFile(
        2, "02_weights/1_extract_the_weights.ipynb", _WEIGHTS, ("graph.py",),
        elsewhere={"fold_conv_bn": _FOLD, "fold": _FOLD}, kept={"fold_conv_bn": "4 · All 52, in your engine"},
    ),
    "kernels/add.cu": _kernel("add", "04_kernels/2_add"),
    "kernels/pool.cu": _kernel("pool", "04_kernels/4_global_average_pool"),
    "kernels/gemm.cu": _kernel("gemm", "04_kernels/5_gemm"),
    "kernels/im2col.cu": _kernel("im2col", "04_kernels/9_convolution_as_gemm"),
    "kernels/conv.cu": _kernel("conv", "04_kernels/9_convolution_as_gemm"),
    "kernels/pointwise.cu": _kernel("pointwise", "04_kernels/10_pointwise"),
    "kernels/depthwise.cu": _kernel("depthwise", "04_kernels/11_depthwise"),
    "plan.py": EngineFile(
        5, "05_network/1_from_layers_to_a_plan.ipynb", _PLAN,
        elsewhere=dict.fromkeys(("live_ranges", "arena", "make_plan"), "05_network/2_memory.ipynb")
        | dict.fromkeys(("hard_swish", "own_fusion"), _OWN),
    ),
    "engine.py": EngineFile(
        5, "05_network/3_your_engine_runs.ipynb", _ENGINE, ("graph.py", "weights.py", "plan.py"),
        elsewhere=dict.fromkeys(("hard_swish", "own_fusion"), _OWN),
    ),
    "kernels/hard_swish.cu": _kernel("hard_swish", "05_network/6_your_own_network", 5),
    "kernels/conv_hard_swish.cu": _kernel("conv_hard_swish", "05_network/6_your_own_network", 5),
    "kernels/depthwise_hard_swish.cu": _kernel("depthwise_hard_swish", "05_network/6_your_own_network", 5),
    "kernels/block.cu": _kernel("block", "06_optimize/5b_your_fused_block", 6),
    "blocks.py": EngineFile(
        6, "06_optimize/5b_your_fused_block.ipynb", _BLOCKS, ("graph.py", "weights.py", "plan.py", "engine.py")
    ),
}  # fmt: skip
