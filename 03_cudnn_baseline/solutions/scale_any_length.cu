// scale_any_length: out[i] = factor * in[i] for n floats. A block may have any number of
// threads. The whole grid has n threads or more.
extern "C" __global__ void scale_any_length(const float* in, float* out, float factor, int n) {
    // BEGIN SOLUTION
    // write: the index of this thread in the grid, the guard, one element
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * in[i];
    // END SOLUTION
}
