// expect: without atomics
extern "C" __global__ void block_sums(const float* in, float* out, int n) {
    __shared__ float sum;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) sum = 0.0f;
    __syncthreads();
    if (i < n) atomicAdd(&sum, in[i]);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
