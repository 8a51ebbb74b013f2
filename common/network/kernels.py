"""The backend "kernels": every layer on this project's own CUDA C++, on a GPU or on the simulator."""

from typing import Any

from .. import kernels
from ..cuda.checks import bounds
from ..topology import layers as kinds
from .steps import Launch, Step, StepBackend, activation_of, as_pictures, copied


class KernelBackend(StepBackend):
    """A network's steps on common.kernels, NCHW."""

    name = "kernels"

    def bind(self, step: Step, inputs: list[Any], residual: Any, out: Any) -> Launch:
        layer, x, parameters = step.layer, inputs[0], self.parameters
        match layer:
            case kinds.Conv2d():
                bias = parameters[layer.bias] if layer.bias else None
                return lambda: kernels.conv2d(
                    x, parameters[layer.weight], bias, layer.stride, layer.padding, layer.dilation, layer.groups,
                    residual=residual, activation=step.activation, out=out,
                )  # fmt: skip
            case kinds.BatchNorm2d():
                shape = as_pictures(x.shape)
                scale, shift = parameters[f"{layer.name}/scale"], parameters[f"{layer.name}/shift"]
                return lambda: kernels.conv2d(x.reshape(shape), scale, shift, groups=shape[1], out=out.reshape(shape))
            case kinds.Linear():
                bias = parameters[layer.bias] if layer.bias else None
                return lambda: kernels.linear(x.reshape(len(x), -1), parameters[layer.weight], bias, out=out)
            case kinds.ReLU() | kinds.ReLU6() | kinds.Clip():
                low, high = map(float, bounds(activation_of(layer)))
                return lambda: kernels.clamp(x, low, high, out=out)
            case kinds.Softmax():
                # everything behind the dimension has size 1, as after a global pool: `check` saw to that
                shape = x.shape[: layer.dim + 1]
                return lambda: kernels.softmax(x.reshape(shape), out=out.reshape(shape))
            case kinds.ResidualAdd():
                return lambda: kernels.add(*inputs, out=out)
            case kinds.GlobalAveragePool():
                return lambda: kernels.global_avg_pool(x, out=out)
            case kinds.Reshape():
                return copied(x, out)
            case _:
                return copied(x, out, layer.dims)
