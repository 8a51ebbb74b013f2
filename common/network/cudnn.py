"""The backend "cudnn": every layer on NVIDIA's libraries, as fast as they can be asked to run it (chapter 03)."""

from typing import Any

import numpy as np

from .. import cuda, kernels, topology
from ..cuda.checks import bounds
from ..cudnn import library, operators, pooling
from ..topology import layers as kinds
from .program import Launch, StepBackend, as_pictures, copied, in_turn, rows
from .steps import Step, activation_of


class CudnnBackend(StepBackend):
    """A network's steps on common.cudnn, NCHW or NHWC.

    softmax, for which it pays no one to ask cuDNN, runs on common.kernels.
    """

    name = "cudnn"
    layers = frozenset(
        {
            kinds.BatchNorm2d, kinds.Clip, kinds.Conv2d, kinds.GlobalAveragePool, kinds.Linear, kinds.Permute,
            kinds.ReLU, kinds.ReLU6, kinds.Reshape, kinds.ResidualAdd, kinds.Softmax,
        }
    )  # fmt: skip

    def __init__(
        self, model: Any, dtype: str = "fp32", layout: str = "NCHW", arithmetic: str | None = None,
        tune: bool | int = False,
    ) -> None:  # fmt: skip
        library.require()
        self._how: dict[str, Any] = {"arithmetic": arithmetic, "tune": tune}
        super().__init__(model, dtype, layout)

    def refuses(self, layer: topology.Layer) -> str | None:
        if isinstance(layer, kinds.Softmax) and any(size != 1 for size in layer.output_shape[layer.dim + 1 :]):
            return f"runs Softmax along the last dimension, not along dimension {layer.dim} of {layer.output_shape}"
        return super().refuses(layer)

    def bind(self, step: Step, inputs: list[Any], residual: Any, out: Any) -> tuple[operators.Call, Launch | None]:
        layer, x, parameters = step.layer, inputs[0], self.parameters
        match layer:
            case kinds.Conv2d():
                call, _ = operators.convolution(
                    x, parameters[layer.weight], parameters[layer.bias] if layer.bias else None,
                    layer.stride, layer.padding, layer.dilation, layer.groups,
                    residual=residual, activation=step.activation, out=out, **self._how,
                )  # fmt: skip
            case kinds.BatchNorm2d():
                shape = as_pictures(x.shape)
                scale, shift = parameters[f"{layer.name}/scale"], parameters[f"{layer.name}/shift"]
                call, _ = operators.convolution(
                    x.reshape(shape),
                    scale,
                    shift,
                    groups=shape[1],
                    activation=step.activation,
                    residual=None if residual is None else residual.reshape(shape),
                    out=out.reshape(shape),
                    **self._how,
                )
            case kinds.Linear():
                flat, before = rows(x)
                bias = parameters[layer.bias] if layer.bias else None
                call, _ = operators.gemm_as_convolution_call(
                    flat, parameters[layer.weight], bias, True, None, out=out, **self._how
                )
                return call, in_turn(before) if before else None
            case kinds.ReLU() | kinds.ReLU6() | kinds.Clip():
                low, high = map(float, bounds(activation_of(layer)))
                call = operators.elementwise_call(
                    x, [operators.clamp_node(low, high)], {}, out, self._layout, self._how["tune"]
                )
            case kinds.ResidualAdd():
                chain = [operators.Node("add", "b")]
                call = operators.elementwise_call(x, chain, {"b": inputs[1]}, out, self._layout, self._how["tune"])
            case kinds.GlobalAveragePool():
                call, _ = pooling.pooling_call(x, tuple(x.shape[2:]), out=out)
            case kinds.Softmax():
                flat, before = rows(x)
                probabilities = cuda.empty(flat.shape, flat.dtype)

                def softmax() -> None:
                    kernels.softmax(flat, out=probabilities)

                return _plain([*before, softmax, copied(probabilities.reshape(x.shape), out)], "common.kernels.softmax")
            case kinds.Reshape():
                return _plain([copied(x, out)], "copy")
            case _:
                return _plain([copied(x, out, layer.dims)], "copy")
        return call, None

    def finish(self, bound: list[Any]) -> tuple[list[Launch], list[str]]:
        """One piece of scratch memory serves all steps, as they run one after the other."""
        scratch = cuda.empty(max([1, *(call.scratch for call, _ in bound)]), np.uint8)
        address = scratch.data.ptr

        def launch_of(call: operators.Call, before: Launch | None) -> Launch:
            def launch() -> None:
                if before:
                    before()
                call(address)
                _ = scratch  # kept as long as what uses it

            return launch

        return [launch_of(*entry) for entry in bound], [call.told for call, _ in bound]


def _plain(launches: list[Launch], told: str) -> tuple[operators.Call, None]:
    together = in_turn(launches)
    return operators.Call(lambda _: together(), told=told), None
