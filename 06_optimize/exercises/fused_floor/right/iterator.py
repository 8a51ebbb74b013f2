from itertools import islice


def fused_floor(layers, kernels, batch, bytes_per_s, flops_per_s):
    rest, seconds = iter(layers), []
    for count in kernels:
        first, *others = group = list(islice(rest, count))
        last = others[-1] if others else first
        traffic = (first["in"] + last["out"]) * batch + sum(layer["weights"] for layer in group)
        work = sum(layer["flops"] * batch for layer in group)
        seconds.append(max(traffic / bytes_per_s, work / flops_per_s))
    return sum(seconds) * 1e6
