# expect: any number of kernels
def fused_floor(layers, kernels, batch, bytes_per_s, flops_per_s):
    us, begin = 0.0, 0
    for count in kernels[:16]:
        one = layers[begin : begin + count]
        begin += count
        moved = batch * (one[0]["in"] + one[-1]["out"]) + sum(layer["weights"] for layer in one)
        us += max(moved / bytes_per_s, batch * sum(layer["flops"] for layer in one) / flops_per_s)
    return 1e6 * us
