// cpu.cpp - the three roofs of one core of the CPU: bytes per second from memory and from the L2 cache, and fp32
// multiply-adds per second. cpu.py compiles and calls these functions; each returns the seconds that it took.

#include <string.h>
#include <time.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

#if defined(__AVX512F__)
#define WIDTH 16  // floats per register
#elif defined(__AVX__)
#define WIDTH 8
#else
#define WIDTH 4
#endif

typedef float floats __attribute__((vector_size(4 * WIDTH)));

static double now() {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// One pass, in functions of their own, so that the compiler keeps every pass.
__attribute__((noinline)) static void scale(const float* in, float* out, long n) {
    for (long i = 0; i < n; ++i) out[i] = 1.0f * in[i] + 0.0f;
}

__attribute__((noinline)) static void copy(const float* in, float* out, long n) {
    memcpy(out, in, (size_t)n * sizeof(float));
}

// out[i] = in[i] for i in [0, n), `passes` times: 8n bytes per pass. way 0: a loop of loads and stores; way 1: memcpy.
EXPORT double copy_seconds(const float* in, float* out, long n, long passes, int way) {
    double start = now();
    for (long pass = 0; pass < passes; ++pass) {
        if (way == 0) scale(in, out, n);
        else copy(in, out, n);
        asm volatile("" ::: "memory");
    }
    return now() - start;
}

template <int CHAINS>
static void chains(float* out, long steps, float a, float b) {
    floats x[CHAINS];
    for (int c = 0; c < CHAINS; ++c)
        for (int k = 0; k < WIDTH; ++k) x[c][k] = (float)(c + k);
    for (long step = 0; step < steps; ++step)
        for (int c = 0; c < CHAINS; ++c) x[c] = a * x[c] + b;
    for (int c = 0; c < CHAINS; ++c)
        for (int k = 0; k < WIDTH; ++k) out[c * WIDTH + k] = x[c][k];
}

EXPORT int width() { return WIDTH; }

// `count` chains (8, 12, 16 or 24) of registers, x = a·x + b, `steps` times: 2·count·WIDTH·steps FLOPs.
// out[c·WIDTH + k] is the end of the chain that starts at c + k. Returns a negative number for another count.
EXPORT double fma_seconds(float* out, long steps, int count, float a, float b) {
    double start = now();
    if (count == 8) chains<8>(out, steps, a, b);
    else if (count == 12) chains<12>(out, steps, a, b);
    else if (count == 16) chains<16>(out, steps, a, b);
    else if (count == 24) chains<24>(out, steps, a, b);
    else return -1.0;
    return now() - start;
}
