import math


def tile_us(n):
    """Predicted µs of a launch; only the order of the tiles counts.

    n: a dictionary of counts. launched: thread blocks of the launch; at_once: how many thread
    blocks the card can hold at a time; resident: how many one multiprocessor can hold. Per
    thread block: warps; slices of hidden channels; expand, depthwise, project: multiply-adds;
    weights, inputs, outputs: bytes. Per clock cycle, each of the 132 multiprocessors does
    about 1,000 multiply-adds on tensor cores (expand, project) or 60 in the depthwise layer,
    and loads or stores 40 bytes. A thread block waits about 1,000 cycles for its first bytes,
    and 100 in each slice. A thread block by itself with w < 8 warps computes 8 / w times as
    long; it loads as fast as with 8. 1 µs is 1,750 cycles.
    """
    # BEGIN SOLUTION
    # write: waves × cycles of a wave
    waves = math.ceil(n["launched"] / n["at_once"])
    sharing = min(n["resident"], math.ceil(n["launched"] / 132))
    computing = (n["expand"] + n["project"]) / 1000 + n["depthwise"] / 60
    loading = (n["weights"] + n["inputs"] + n["outputs"]) / 40
    alone = max(computing * 8 / min(8, n["warps"]), loading) + 1000 + 100 * n["slices"]
    return waves * max(sharing * max(computing, loading), alone) / 1750
    # END SOLUTION
