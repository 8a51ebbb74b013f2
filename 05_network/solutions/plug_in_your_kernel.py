def plug_in_your_kernel(kernels):
    """The function that Network(model, layout="NCHW", operators={"global_avg_pool": …}) wants.

    It is called as mean(x, out=out) with x (N, C, H, W) and out (N, C, 1, 1), both
    C-contiguous and of the same dtype, and writes the mean of each channel of each picture to
    out.

    kernels: {"float32": kernel, "float16": kernel}, for arrays of that dtype. Call one as
    kernel(grid, block, (x, out, channels, pixels)): each thread writes the mean of one channel
    of one picture. channels counts those of all pictures, pixels the numbers of one channel.
    Threads beyond the last channel do nothing. Take blocks of 128 threads.
    """
    # BEGIN SOLUTION
    # write: the function that launches your kernel

    def mean(x, *, out):
        n, c, h, w = x.shape
        channels, pixels = n * c, h * w
        kernels[out.dtype.name](((channels + 127) // 128,), (128,), (x, out, channels, pixels))

    return mean
    # END SOLUTION
