# expect: solve for o
def readers_of(pixel, outputs, kernel, stride, pad, dilation):
    found = []
    for k in range(kernel):
        o = (pixel + pad - k * dilation) / stride
        if o == int(o) and 0 <= o < outputs:
            found.append((int(o), k))
    return found
