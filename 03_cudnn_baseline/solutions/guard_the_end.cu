// guard_the_end: out[i] = in[i] + 10 for n floats. One block of n threads or more.
extern "C" __global__ void guard_the_end(const float* in, float* out, int n) {
    // BEGIN SOLUTION
    // write: as in add_ten, but only where there is an element
    int i = threadIdx.x;
    if (i < n) out[i] = in[i] + 10.0f;
    // END SOLUTION
}
