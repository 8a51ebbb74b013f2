def overlapped_us(kernel_times, boundary_us, visible_us):
    """µs from the start of the first kernel to the end of the last one.

    kernel_times: a list of (prologue_us, body_us, programmatic), in launch order; not empty.
    boundary_us: in an ordinary launch, from the previous body's end to the start of the
        prologue. The body follows the prologue.
    visible_us: in a programmatic launch, from the previous body's end until its writes are
        visible, so that the wait returns. The prologue starts when the previous kernel's body
        starts; the body starts when the prologue is over and the wait has returned.
    The first kernel has no previous kernel: its body follows its prologue.
    """
    # BEGIN SOLUTION
    # write: the µs from the first start to the last end
    body = end = 0.0
    for i, (prologue_us, body_us, programmatic) in enumerate(kernel_times):
        if i == 0:
            body = prologue_us
        elif programmatic:
            body = max(body + prologue_us, end + visible_us)
        else:
            body = end + boundary_us + prologue_us
        end = body + body_us
    return end
    # END SOLUTION
