"""Random weights for a full-size network without a download, with activations in a realistic range in every layer.

Plain random weights are a poor substitute for trained ones: activations vanish or explode with depth, and after dozens
of ReLUs every picture gets the same scores, because the mean of a channel outgrows the differences between pictures.
Trained networks have batch-norms whose running statistics subtract that mean. Therefore the statistics are computed
along with the weights: each channel's mean and variance are propagated from layer to layer, assuming normally
distributed values and independent channels (the mean-field approximation of B. Poole et al., arXiv:1606.05340), and
each batch-norm gets the mean and variance of its input.

The numbers come from `numpy.random.RandomState.random_sample`, a stream that NumPy guarantees not to change (NEP 19),
and elementary arithmetic; random normals of a library may differ in their last bits.
"""

import math

import numpy as np

from ..topology import BatchNorm2d, Conv2d, GlobalAveragePool, Graph, Linear, ReLU, ReLU6, ResidualAdd

SEED = 2018

# Spatial filters are drawn from this range: mostly positive, so that a layer blurs more than it sharpens, and
# differences between whole pictures survive longer than differences between pixels. With as many negative weights the
# scores of pictures differ less, and rounding errors are 1.5 times as large.
BLURRING = (-0.6, 1.0)

# Batch-norm's weight (standard deviation of its output) and bias (mean of its output) are drawn from these ranges.
# Before a ReLU6 or ReLU: about 30 % of all values are clamped at 0 and 1 % at 6, so that a kernel without the clamp
# gives wrong results. Elsewhere, at the end of a residual branch or its shortcut: smaller, as up to four are added.
BEFORE_CLAMP = (1.0, 2.5), (0.0, 2.0)
LINEAR = (0.5, 1.0), (-0.5, 0.5)
POOLED = 0.1  # the share of a feature's variance that remains, roughly, after averaging over a picture
COMMON = 2.0  # standard deviation of the logits' part common to all pictures, in units of LOGIT_STD
LOGIT_STD = 3.0

UNBOUNDED = 1e6  # stands for a ReLU's missing upper bound in the formula for ReLU6; no value comes near

Moments = tuple[np.ndarray, np.ndarray]  # mean and variance of each channel


def seeded_parameters(graph: Graph, seed: int = SEED) -> dict[str, np.ndarray]:
    """float32 parameters, by name, for a MobileNetV2 or a ResNet with batch-norms after its convolutions.

    graph: `topology.build(..., batch_norm=True)`, `topology.resnet20()`, or one with the same kinds of layers.

    Intended for inputs with mean 0 and standard deviation 1 of the graph's input size; others work as well. The numbers
    are the same on every machine and with every NumPy. TypeError for a kind of layer that neither network has.
    """
    random = np.random.RandomState(seed)
    parameters: dict[str, np.ndarray] = {}
    channels = graph.input_shape[1]
    moments: dict[str, Moments] = {graph.input: (np.zeros(channels), np.ones(channels))}
    before_clamp = {layer.inputs[0] for layer in graph if isinstance(layer, ReLU6 | ReLU)}

    def uniform(low: float, high: float, shape: int | tuple[int, ...]) -> np.ndarray:
        return (random.random_sample(shape) * (high - low) + low).astype(np.float32)

    def centred(std: float, shape: int | tuple[int, ...]) -> np.ndarray:
        return uniform(-math.sqrt(3) * std, math.sqrt(3) * std, shape)

    for layer in graph:
        mean, var = moments[layer.inputs[0]]
        match layer:
            case Conv2d():
                shape = layer.parameter_shapes[layer.weight]
                std = 1 / math.sqrt(math.prod(shape[1:]))
                if layer.groups > 1:
                    weight = uniform(*BLURRING, shape)
                elif layer.kernel_size == (1, 1) or layer.inputs == (graph.input,):
                    weight = centred(std, shape)
                else:  # a 1×1 convolution times a spatial filter
                    weight = centred(2 * std, (*shape[:2], 1, 1)) * uniform(*BLURRING, shape)
                parameters[layer.weight] = weight
                mean, var = after_convolution(layer, weight.astype(np.float64), mean, var)
            case BatchNorm2d():
                scales, shifts = BEFORE_CLAMP if layer.output in before_clamp else LINEAR
                size = layer.num_features
                numbers = {
                    layer.weight: uniform(*scales, size),
                    layer.bias: uniform(*shifts, size),
                    layer.running_mean: coarse(mean + np.sqrt(var) * centred(0.1, size)),
                    layer.running_var: coarse(var * uniform(0.8, 1.25, size)),
                }
                parameters |= numbers
                gamma, beta, running_mean, running_var = numbers.values()
                scale = gamma / np.sqrt(running_var.astype(np.float64) + layer.eps)
                mean, var = (mean - running_mean) * scale + beta, var * scale**2
            case ReLU6():
                mean, var = after_clamp(mean, var, 0.0, 6.0)
            case ReLU():
                mean, var = after_clamp(mean, var, 0.0, UNBOUNDED)
            case ResidualAdd():
                other_mean, other_var = moments[layer.inputs[1]]
                mean, var = mean + other_mean, var + other_var
            case GlobalAveragePool():
                var = var * POOLED
            case Linear():
                shape = layer.parameter_shapes[layer.weight]
                std = float(coarse(LOGIT_STD / np.sqrt(var.sum())))
                weight = parameters[layer.weight] = centred(std, shape)
                # The part common to all pictures would dominate their differences. With all of it subtracted, scores
                # would be small differences of large sums, unlike in trained networks; so a part of it remains.
                common = weight.astype(np.float64) @ mean
                bias = centred(0.1, layer.out_features) - common * (1 - COMMON * LOGIT_STD / common.std())
                parameters[str(layer.bias)] = coarse(bias)
            case _:
                raise TypeError(f"{layer.name}: a seeded network has no {type(layer).__name__}")
        moments[layer.output] = mean, var
    return parameters


def after_convolution(layer: Conv2d, weight: np.ndarray, mean: np.ndarray, var: np.ndarray) -> Moments:
    """Mean and variance per output channel. weight: (out_channels, in_channels / groups, kH, kW).

    Neighbouring pixels are correlated: the variance is taken as the mean of that for independent pixels, Σ w²·var, and
    that for equal ones, (Σ w)²·var. Zeros of the padding reduce the mean; in a 7×7 image half of all windows contain
    some.
    """
    group = np.arange(layer.out_channels) // (layer.out_channels // layer.groups)
    group_channels = weight.shape[1]
    inputs = group[:, None] * group_channels + np.arange(group_channels)  # the input channels of each output
    power = ((weight**2).sum((2, 3)) + weight.sum((2, 3)) ** 2) / 2
    # contribution of each tap to the mean inside the image, and how often one tap, or two at once, are inside
    taps = np.einsum("ocij,oc->oij", weight, mean[inputs])
    rows, columns = taps_inside(layer, 0), taps_inside(layer, 1)
    first = np.einsum("oij,i,j->o", taps, rows.mean(0), columns.mean(0))
    pairs = rows.T @ rows / len(rows), columns.T @ columns / len(columns)
    second = np.einsum("oij,okl,ik,jl->o", taps, taps, *pairs, optimize=True)
    return first, (power * var[inputs]).sum(1) + second - first**2


def taps_inside(layer: Conv2d, axis: int) -> np.ndarray:
    """(positions, taps): 1 if tap k of the window at output position i is in the image, 0 if in the padding."""
    size, positions = layer.input_shapes[0][2 + axis], layer.output_shape[2 + axis]
    place = np.arange(positions)[:, None] * layer.stride[axis] - layer.padding[axis][0]
    place = place + np.arange(layer.kernel_size[axis]) * layer.dilation[axis]
    return ((place >= 0) & (place < size)).astype(np.float64)


def after_clamp(mean: np.ndarray, var: np.ndarray, low: float, high: float) -> Moments:
    """Mean and variance of min(max(x, low), high) for normally distributed x."""
    std = np.sqrt(var)
    a, b = (low - mean) / std, (high - mean) / std
    below, above = normal_cdf(a), 1 - normal_cdf(b)
    between = 1 - below - above
    density_a, density_b = normal_pdf(a), normal_pdf(b)
    first = mean * between + std * (density_a - density_b)  # ∫ x · density over [low, high]
    second = (mean**2 + var) * between + std * ((mean + low) * density_a - (mean + high) * density_b)
    first = first + low * below + high * above
    second = second + low**2 * below + high**2 * above
    return first, np.maximum(second - first**2, 1e-6)


def coarse(values: np.ndarray) -> np.ndarray:
    """float32 rounded to 11 significant bits, because `exp` and sums differ slightly between machines."""
    return values.astype(np.float16).astype(np.float32)


def normal_pdf(z: np.ndarray) -> np.ndarray:
    """Density of the standard normal distribution, elementwise."""
    return np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


def normal_cdf(z: np.ndarray) -> np.ndarray:
    """Cumulative distribution function of the standard normal distribution, elementwise; z: a vector."""
    return np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in z])
