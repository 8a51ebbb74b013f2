// add_int8, rung 2 "vectorised": WORDS words of four neighbouring elements per thread, 16 bytes per access where addresses allow.
//
// Moves   3n bytes, with up to 16 times fewer requests.
// Gains   16 bytes of each array in flight per thread, instead of one: bytes in flight hide the latency of memory.
// Costs   a tail of up to 4·WORDS - 1 elements, added one by one. Eight instructions per element remain, two of them conversions.
#include "requantize.h"

struct alignas(4 * WORDS) Access { unsigned word[WORDS]; };

extern "C" __global__ void add_int8(const signed char* __restrict__ a, const signed char* __restrict__ b, signed char* __restrict__ out,
                                    float scale_a, float scale_b, float shift, int offset, int low, int high, int n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, accesses = n / (4 * WORDS);
    if (i < accesses) {
        const Access x = ((const Access*)a)[i], y = ((const Access*)b)[i];
        Access sum;
#pragma unroll
        for (int k = 0; k < WORDS; ++k) {
            int v[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) v[e] = add_scaled(byte_of(x.word[k], e), byte_of(y.word[k], e), scale_a, scale_b, shift, offset, low, high);
            sum.word[k] = pack(v[0], v[1], v[2], v[3]);
        }
        ((Access*)out)[i] = sum;
    }
    const unsigned last = accesses * 4 * WORDS + i;  // the last n % (4·WORDS) elements, one per thread
    if (last < n) out[last] = (signed char)add_scaled(a[last], b[last], scale_a, scale_b, shift, offset, low, high);
}
