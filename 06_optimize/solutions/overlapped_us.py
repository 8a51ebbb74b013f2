def overlapped_us(kernels, boundary_us, handoff_us):
    """µs from the first kernel's begin to the last one's end, for kernels that are launched
    one after the other.

    kernels: tuples (prologue_us, body_us, programmatic). The prologue needs nobody's results;
    the body needs those of the kernel ahead. An ordinary kernel begins, with its prologue,
    boundary_us after the one ahead has ended. A programmatic one begins its prologue as soon
    as the body of the one ahead begins, and then waits: its body begins no earlier than
    handoff_us after the one ahead has ended. The first kernel waits for nobody.
    """
    # BEGIN SOLUTION
    # write: the µs from the first begin to the last end
    body = end = 0.0
    for i, (prologue_us, body_us, programmatic) in enumerate(kernels):
        if i == 0:
            body = prologue_us
        elif programmatic:
            body = max(body + prologue_us, end + handoff_us)
        else:
            body = end + boundary_us + prologue_us
        end = body + body_us
    return end
    # END SOLUTION
