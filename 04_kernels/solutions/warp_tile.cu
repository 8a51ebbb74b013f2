// product: C = Aᵀ·B for the tile of one warp. A is (K, 64), B is (K, 32), C is (64, 32), all
// row-major; K is a multiple of 8. One block of 32 threads; each computes 8 × 8 elements of C.
extern "C" __global__ void product(const float* A, const float* B, float* C, int K) {
    __shared__ __align__(16) float As[8][64], Bs[8][32];
    int lane = threadIdx.x;
    __align__(16) float sums[8][8] = {};
    // BEGIN SOLUTION
    // write: which rows and columns are this lane's? 8 lanes below each other, 4 side by side
    int row = lane / 4 * 4, col = lane % 4 * 4;  // of its first 4 × 4 elements
    // END SOLUTION
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int i = lane; i < 8 * 64; i += 32) As[i / 64][i % 64] = A[k0 * 64 + i];
        for (int i = lane; i < 8 * 32; i += 32) Bs[i / 32][i % 32] = B[k0 * 32 + i];
        __syncwarp();  // one warp: the barrier of the block is not needed
        // BEGIN SOLUTION
        // write: per k, four 16-byte loads, *(float4*)&… = *(float4*)&…, and 64 products
        for (int k = 0; k < 8; ++k) {
            __align__(16) float a[8], b[8];
            for (int i = 0; i < 8; i += 4) *(float4*)&a[i] = *(float4*)&As[k][row + 8 * i];
            for (int j = 0; j < 8; j += 4) *(float4*)&b[j] = *(float4*)&Bs[k][col + 4 * j];
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j) sums[i][j] += a[i] * b[j];
        }
        // END SOLUTION
        __syncwarp();
    }
    // BEGIN SOLUTION
    // write: the sums to C, in 16-byte stores
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; j += 4) {
            int r = row + i / 4 * 32 + i % 4, c = col + 4 * j;
            *(float4*)&C[r * 32 + c] = *(float4*)&sums[i][j];
        }
    // END SOLUTION
}
