// expect: makes 0 mma_tf32
// requires: sm_80
extern "C" __global__ void three_tf32(const float* A, const float* B, float* D, int K) {
    for (int i = threadIdx.x; i < 128; i += 32) {
        double sum = 0;
        for (int k = 0; k < K; ++k) sum += (double)A[i / 8 * K + k] * B[k * 8 + i % 8];
        D[i] = sum;
    }
}
