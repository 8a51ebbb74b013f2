// int8_finish: what follows the sums of a convolution with a residual. acc (P, O) int32, with
// the bias; residual and y (P, O) int8, multiplier (O) float. One thread per element.
//   conv: round(acc · multiplier) + zero_point, clamped to −128 … 127
//   y:    the sum of section 2 by two fma, the inner one with the residual, then rounded to an
//         integer. A ReLU6 follows the addition: in codes y is clamped to low … high
// zero_point is that of conv; shift has that of y.
extern "C" __global__ void int8_finish(const int* acc, const float* multiplier,
                                       const signed char* residual, signed char* y, int P,
                                       int O, int zero_point, int low, int high, float scale_a,
                                       float scale_b, float shift) {
    // BEGIN SOLUTION
    // write: the kernel
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= P * O) return;
    const int q = __float2int_rn((float)acc[i] * multiplier[i % O]) + zero_point;
    const int conv = min(max(q, -128), 127);
    const float rest = __fmaf_rn((float)residual[i], scale_b, shift);
    const int sum = __float2int_rn(__fmaf_rn((float)conv, scale_a, rest));
    y[i] = (signed char)min(max(sum, low), high);
    // END SOLUTION
}
