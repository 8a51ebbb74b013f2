// nhwc_to_nchw: out[c][p] = in[p][c] for 8 channels. in is (pixels, 8), out is (8, pixels), both row by row.
// A block of 256 threads moves 32 pixels of 8 channels through shared memory.
extern "C" __global__ void nhwc_to_nchw(const float* in, float* out, int pixels) {
    // your code: float tile[8][…], a row a channel. How long must a row be for no bank conflicts, neither here nor there?
    int t = threadIdx.x, p = t / 8, c = t % 8, first = blockIdx.x * 32;
    // your code: tile[c][p] gets channel c of the pixel first + p; a warp reads 4 pixels of 8 channels, 128 bytes
    p = t % 32, c = t / 32;
    // your code: out gets tile[c][p], a warp writing 32 pixels of one channel
}
