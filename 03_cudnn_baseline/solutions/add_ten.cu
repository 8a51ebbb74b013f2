// add_ten: out[i] = in[i] + 10 for n floats. One block of exactly n threads.
extern "C" __global__ void add_ten(const float* in, float* out) {
    // BEGIN SOLUTION
    // write: the index of this thread, and its one element of out
    int i = threadIdx.x;
    out[i] = in[i] + 10.0f;
    // END SOLUTION
}
