# expect: what each node reads of its own
import math


def bytes_of_way(way, x, w, y, itemsize):
    out = math.prod(y)
    elements = 0
    for nodes in way:
        elements += (math.prod(x) + math.prod(w)) * ("conv" in nodes)
        elements += y[1] * ("bias" in nodes) + out * ("residual" in nodes)
    return itemsize * (elements + (2 * len(way) - 1) * out)
