import numpy as np

from common.check import expect
from common.check.trials import Slips, seeded


def folded(weight, scale, shift, groups, read=None):
    """One output channel after the other; `read`: which input channel its input i is."""
    per_group, per_out = weight.shape[1], len(weight) // groups
    read = read or (lambda o, i: o // per_out * per_group + i)
    new, bias = weight.astype(np.float64), np.zeros(len(weight))
    for o in range(len(weight)):
        for i in range(per_group):
            channel = read(o, i)
            bias[o] += float(shift[channel]) * float(weight[o, i].astype(np.float64).sum())
            new[o, i] = weight[o, i] * float(scale[channel])
    return new, bias


SLIPS = {
    "the outputs of one group stand side by side: with 2 outputs per input channel, outputs 0 and 1 read channel 0": (
        lambda w, s, t, groups: folded(w, s, t, groups, lambda o, i: o % groups * w.shape[1] + i)
    ),
    "each group has input channels of its own: those of group g begin at g · (in_channels / groups)": (
        lambda w, s, t, groups: folded(w, s, t, groups, lambda o, i: i)
    ),
    "with more outputs than inputs, the number of the output channel is not that of its group": (
        lambda w, s, t, groups: folded(w, s, t, groups, lambda o, i: min(o * w.shape[1] + i, len(s) - 1))
    ),
    "the shift passes through the convolution: each tap multiplies it with its weight": lambda w, s, t, groups: (
        folded(w, s, t, groups)[0],
        folded(np.ones_like(w) / w[0, 0].size, s, t, groups)[1],
    ),
    "the shift is multiplied with the weight as it was, without the scale": lambda w, s, t, groups: (
        folded(w, s, t, groups)[0],
        folded(w, s, s * t, groups)[1],
    ),
}


def check(depthwise_multiplier):
    random, seed = seeded()
    slips = [Slips({hint: lambda *a, slip=slip, i=i: slip(*a)[i] for hint, slip in SLIPS.items()}) for i in (0, 1)]

    def compare(out_channels, in_channels, groups, hint, dtype=np.float64, kernel=(3, 3)):
        weight = random.uniform(0.2, 2, (out_channels, in_channels // groups, *kernel)).astype(dtype)
        scale, shift = (random.uniform(0.5, 3, in_channels).astype(dtype) for _ in range(2))
        scale *= random.choice([-1, 1], in_channels).astype(dtype)
        arguments = weight, scale, shift, groups
        got, want = depthwise_multiplier(weight.copy(), scale.copy(), shift.copy(), groups), folded(*arguments)
        if not (isinstance(got, tuple) and len(got) == 2):
            expect(got, want, what="depthwise_multiplier(…)", hint="give back (weight', bias')")
        for name, one, other, known in zip(("weight'", "bias'"), got, want, slips, strict=True):
            expect(
                one,
                other,
                what=f"{name} of {in_channels} → {out_channels} channels in {groups} groups ({seed})",
                hint=known.hint(one, arguments, hint),
                rtol=1e-5 if dtype == np.float32 else 1e-9,
            )

    compare(5, 5, 5, "depthwise: output channel o reads input channel o alone")
    hint = (
        "the outputs of one group stand side by side: with 2 outputs per input channel, outputs 0 and 1 read channel 0"
    )
    compare(8, 4, 4, hint)
    compare(9, 3, 3, hint)
    compare(6, 4, 1, "with one group, each output channel reads all input channels")
    compare(4, 8, 2, "output channels 0 and 1 are group 0 and read input channels 0 to 3; the others read 4 to 7")
    hint = (
        "output o belongs to group o // (out_channels / groups), whose inputs begin at group · (in_channels / groups)"
    )
    for out_channels, in_channels, groups in ((6, 6, 3), (12, 6, 3), (4, 12, 4), (1, 1, 1), (40, 20, 20), (10, 20, 5)):
        for dtype in (np.float32, np.float64):
            kernel = tuple(int(k) for k in random.integers(1, 4, 2))
            compare(out_channels, in_channels, groups, hint, dtype, kernel)
