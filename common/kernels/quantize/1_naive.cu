// quantize, rung 1 "naive": float numbers to int8; one thread per element.
//
//   out = clamp(round(x / scale) + zero_point, -128, 127), ties to even; NaN gives -128
//
// Moves   n elements of x, n bytes of out.
// Gains   what follows reads a quarter of the bytes of fp32, half of those of fp16.
// Costs   a division per element, as ONNX's QuantizeLinear has it: x · (1 / scale) is another number where it rounds otherwise.
#include <cuda_fp16.h>

#include "requantize.h"

extern "C" __global__ void quantize(const scalar_t* __restrict__ x, signed char* __restrict__ out, float scale, int zero_point, int n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, n), rounded up to whole blocks
    if (i < n) out[i] = (signed char)quantized(__fdiv_rn((float)x[i], scale), zero_point, -128, 127);
}
