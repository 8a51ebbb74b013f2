import math


def bytes_of_way(way, x, w, y, itemsize):
    """The bytes that a description of a convolution moves, every array of every graph once.

    way: the cuDNN graphs, run one after the other, each a list of nodes: [["conv", "bias"],
    ["relu6"]]. The node "conv" reads x and w, "bias" reads one number per channel of y, and
    "residual" an array like y; other nodes read nothing of their own. Each graph writes one
    array like y. Each graph but the first begins by reading what the one before wrote.
    x, w, y: shapes (N, C, H, W). itemsize: bytes per number.
    """
    # BEGIN SOLUTION
    # write: the bytes of all graphs of this way
    out = math.prod(y)
    read = {"conv": math.prod(x) + math.prod(w), "bias": y[1], "residual": out}
    elements = sum(read.get(node, 0) for nodes in way for node in nodes)
    return itemsize * (elements + len(way) * out + (len(way) - 1) * out)
    # END SOLUTION
