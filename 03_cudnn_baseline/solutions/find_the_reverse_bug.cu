// reverse: each block reverses its own part of `in` through shared memory. The part of block b
// begins at index b * blockDim.x. It has one element per thread; the part of the last block
// may be shorter. blockDim.x is at most 256.
extern "C" __global__ void reverse(const float* in, float* out, int n) {
    __shared__ float s[256];
    int first = blockIdx.x * blockDim.x, t = threadIdx.x;
    int length = min(n - first, (int)blockDim.x);
    if (t < length) s[t] = in[first + t];
    __syncthreads();
    if (t < length) out[first + t] = s[length - 1 - t];
}
