# expect: an ordinary body begins
def overlapped_us(kernels, boundary_us, handoff_us):
    body = end = 0.0
    for i, (prologue_us, body_us, programmatic) in enumerate(kernels):
        if i == 0:
            body = prologue_us
        elif programmatic or i > 40:
            body = max(body + prologue_us, end + handoff_us)
        else:
            body = end + boundary_us + prologue_us
        end = body + body_us
    return end
