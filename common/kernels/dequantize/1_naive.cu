// dequantize, rung 1 "naive": int8 to float numbers; one thread per element.
//
//   out = (x - zero_point) · scale
//
// Moves   n bytes of x, n elements of out.
// Gains   layers that stay in floating point take what int8 layers give.
// Costs   a pass over memory that an epilogue saves: linear_int8 writes floats itself.
#include <cuda_fp16.h>

extern "C" __global__ void dequantize(const signed char* __restrict__ x, scalar_t* __restrict__ out, float scale, int zero_point, int n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, n), rounded up to whole blocks
    if (i < n) out[i] = (scalar_t)__fmul_rn((float)(x[i] - zero_point), scale);
}
