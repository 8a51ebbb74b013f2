"""Judge how an engine runs inverted residuals: each is one launch of the learner's kernel block (chapter 06)."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ..topology import Conv2d, Graph, Layer, ReLU, ReLU6, ResidualAdd
from .engine_kernels import watched
from .matching import Flaw, errors_located

KERNEL = "block"


def expected_blocks(graph: Graph) -> list[tuple[Layer, ...]]:
    """The inverted residuals of a network that one launch of block computes, each as its five or six layers.

    One that is not linear at its end, or whose addition adds another tensor than the block's input, is none.
    """
    return list(_blocks(graph))


def _blocks(graph: Graph) -> Iterator[tuple[Layer, ...]]:
    readers: dict[str, list[Layer | None]] = {graph.output: [None]}
    for layer in graph:
        for name in layer.inputs:
            readers.setdefault(name, []).append(layer)
    writer = {layer.output: layer for layer in graph}
    for project in graph:
        chain = [project]
        while len(chain) < 5 and chain[0].inputs[0] in writer:
            chain.insert(0, writer[chain[0].inputs[0]])
        if len(chain) < 5 or not _is_chain(*chain) or any(len(readers[one.output]) > 1 for one in chain[:-1]):
            continue
        after = readers.get(project.output, [])
        last = after[0] if len(after) == 1 else None
        if isinstance(last, ResidualAdd):
            other = [name for name in last.inputs if name != project.output]
            then = readers.get(last.output, [])
            bounded = len(then) == 1 and isinstance(then[0], ReLU | ReLU6)
            if other == [chain[0].inputs[0]] and not bounded:
                yield (*chain, last)
        elif not isinstance(last, ReLU | ReLU6):
            yield tuple(chain)


def _is_chain(expand: Layer, first: Layer, window: Layer, second: Layer, project: Layer) -> bool:
    """Whether five layers are a 1×1 convolution, a ReLU6, a depthwise 3×3, a ReLU6 and a 1×1 convolution."""
    if not (isinstance(first, ReLU6) and isinstance(second, ReLU6) and _pointwise(expand) and _pointwise(project)):
        return False
    return (
        isinstance(window, Conv2d)
        and window.groups == window.in_channels == window.out_channels
        and (window.kernel_size, window.dilation, window.padding) == ((3, 3), (1, 1), ((1, 1), (1, 1)))
        and window.stride in ((1, 1), (2, 2))
    )


def _pointwise(layer: Layer) -> bool:
    return isinstance(layer, Conv2d) and (
        (layer.groups, layer.kernel_size, layer.stride, layer.padding) == (1, (1, 1), (1, 1), ((0, 0), (0, 0)))
    )


def runs_of_layers(layers: list[Layer]) -> bool:
    """Whether the layers of a step are an inverted residual, with or without its addition."""
    added = len(layers) == 6 and isinstance(layers[5], ResidualAdd)
    return (len(layers) == 5 or added) and _is_chain(*layers[:5])


def judge_blocks(judged: Any, program: Any, label: Callable[[Any, int], str]) -> int:
    """Raise Flaw unless each inverted residual is a step of the program, and one launch of block. Returns their number.

    judged: an engine_judging.Judged. label: (steps, number) → the step in words.
    """
    steps, blocks = program.plan.steps, expected_blocks(judged.exact)
    step_of = {judged.names[layer.output]: number for number, step in enumerate(steps) for layer in step.layers}
    for block in blocks:
        numbers = sorted({step_of[layer.output] for layer in block})
        if len(numbers) > 1:
            raise Flaw(
                f"right, and not yet what was asked: {label(steps, numbers[0])} and {label(steps, numbers[1])} are"
                f" parts of one inverted residual, and {len(numbers)} steps; expected one, on your kernel block"
            )
    of_blocks = {step_of[block[-1].output] for block in blocks}
    for number, launch in enumerate(program.launches):
        with watched() as launches, errors_located():
            launch()
        found = [one.name for one in launches]
        if number in of_blocks and found != [KERNEL]:
            raise Flaw(f"{label(steps, number)} launches {', '.join(found)}; expected your kernel block, once")
    return len(blocks)


def judge_run(bound: Any, blocks: Any, x: Any, expected: int) -> Counter[str]:
    """The kernels that one run launches, {name: times}. Raises Flaw unless block is launched as often as expected."""
    with watched() as launches, errors_located():
        blocks.run(bound, x)
    found = Counter(one.name for one in launches)
    if found[KERNEL] < expected:
        raise Flaw(f"run launches your kernel block {found[KERNEL]} times, expected {expected}: once per block")
    return found
