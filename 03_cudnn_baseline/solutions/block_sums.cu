// block_sums: out[b] = the sum of the elements of `in` that belong to block b. They begin at
// index b * blockDim.x, one per thread; the last block may have fewer. `in` has n floats.
// blockDim.x is a power of two, from 32 to 1024. The sum of a block takes log2(blockDim.x)
// steps: a tree in shared memory, without atomicAdd.
extern "C" __global__ void block_sums(const float* in, float* out, int n) {
    // BEGIN SOLUTION
    // write: the whole body
    __shared__ float s[1024];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int distance = blockDim.x / 2; distance > 0; distance /= 2) {
        if (t < distance) s[t] += s[t + distance];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
    // END SOLUTION
}
