extern "C" __global__ void pointwise(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y,
                                     int P, int C, int O) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < P * O) {
        const float* row = x + i / O * C;
        const float* column = weight + i % O;
        float sums[2] = {0.0f, 0.0f};
        int c = 0;
        for (; c + 1 < C; c += 2) {
            sums[0] += __ldg(column + c * O) * __ldg(row + c);
            sums[1] += __ldg(column + (c + 1) * O) * __ldg(row + c + 1);
        }
        if (c < C) sums[0] += column[c * O] * row[c];
        y[i] = sums[0] + sums[1];
    }
}
