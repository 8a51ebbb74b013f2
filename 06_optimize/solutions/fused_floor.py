def fused_floor(layers, kernels, batch, bytes_per_s, flops_per_s):
    """Least time of a chain of layers, in µs, if some of them run together as one kernel.

    layers: dicts of bytes and FLOPs of one picture, {"in": …, "out": …, "weights": …, "flops":
    …}; each layer reads its weights and what the layer before it writes, nothing else. Weights
    are the same for all pictures.
    kernels: how many layers in a row each kernel computes, [3, 1] for three as one and then
    one alone. Inside a kernel nothing between two layers touches memory. A kernel moves its
    bytes and computes its FLOPs at the same time; kernels run one after the other.
    """
    # BEGIN SOLUTION
    # write: the least time in µs
    us, first = 0.0, 0
    for count in kernels:
        together = layers[first : first + count]
        moved = batch * (together[0]["in"] + together[-1]["out"]) + sum(
            layer["weights"] for layer in together
        )
        flops = batch * sum(layer["flops"] for layer in together)
        us += 1e6 * max(moved / bytes_per_s, flops / flops_per_s)
        first += count
    return us
    # END SOLUTION
