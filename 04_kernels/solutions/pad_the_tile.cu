// nhwc_to_nchw: out[c][p] = in[p][c] for 8 channels. in is (pixels, 8), out is (8, pixels),
// both row by row. A block of 256 threads moves 32 pixels of 8 channels through shared memory.
extern "C" __global__ void nhwc_to_nchw(const float* in, float* out, int pixels) {
    // BEGIN SOLUTION
    // write: float tile[8][…], a row a channel. How long must a row be for no bank conflicts,
    // write: neither here nor there?
    // 36 % 32 = 4: the 4 pixels of channel c lie in banks 4c … 4c + 3
    __shared__ float tile[8][36];
    // END SOLUTION
    int t = threadIdx.x, p = t / 8, c = t % 8, first = blockIdx.x * 32;
    // BEGIN SOLUTION
    // write: tile[c][p] gets channel c of the pixel first + p; a warp reads 4 pixels of 8
    // write: channels, 128 bytes
    // a warp: 4 pixels of 8 channels, 128 bytes in a row
    if (first + p < pixels) tile[c][p] = in[(first + p) * 8 + c];
    __syncthreads();
    // END SOLUTION
    p = t % 32, c = t / 32;
    // BEGIN SOLUTION
    // write: out gets tile[c][p], a warp writing 32 pixels of one channel
    if (first + p < pixels) out[c * pixels + first + p] = tile[c][p];
    // END SOLUTION
}
