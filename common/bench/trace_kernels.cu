// trace_kernels.cu - small kernels whose memory accesses can be counted by hand: what the simulator's trace predicts for
// them is compared with what the profiler measures on a GPU (trace.py).

// ---- Global memory: 32 threads read 32 floats, in six orders
extern "C" __global__ void copy(const float* __restrict__ in, float* __restrict__ out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i];
}
extern "C" __global__ void copy_offset(const float* __restrict__ in, float* __restrict__ out, int n, int offset) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + offset < n) out[i] = in[i + offset];
}
extern "C" __global__ void copy_strided(const float* __restrict__ in, float* __restrict__ out, int n, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i * stride < n) out[i] = in[i * stride];
}
extern "C" __global__ void copy_float4(const float4* __restrict__ in, float4* __restrict__ out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) out[i] = in[i];
}
#include <cuda_fp16.h>
extern "C" __global__ void copy_half2(const __half2* __restrict__ in, __half2* __restrict__ out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 2) out[i] = in[i];
}

// ---- Transposes: naive, through a tile of 32 columns (32-way bank conflicts), through one of 33 (none)
extern "C" __global__ void transpose_naive(const float* __restrict__ in, float* __restrict__ out, int n) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    if (x < n && y < n) out[x * n + y] = in[y * n + x];
}
template <int COLUMNS> __device__ __forceinline__ void transpose_through_tile(const float* __restrict__ in, float* __restrict__ out, int n) {
    __shared__ float tile[32][COLUMNS];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    if (x < n && y < n) tile[threadIdx.y][threadIdx.x] = in[y * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    if (x < n && y < n) out[y * n + x] = tile[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void transpose_32(const float* __restrict__ in, float* __restrict__ out, int n) {
    transpose_through_tile<32>(in, out, n);
}
extern "C" __global__ void transpose_33(const float* __restrict__ in, float* __restrict__ out, int n) {
    transpose_through_tile<33>(in, out, n);
}

// ---- Reductions of 256 elements a block: four rungs of the same ladder
extern "C" __global__ void reduce_interleaved(const float* __restrict__ in, float* __restrict__ out, int n) {
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        if (t % (2 * step) == 0) s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}
extern "C" __global__ void reduce_strided(const float* __restrict__ in, float* __restrict__ out, int n) {
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        int k = 2 * step * t;
        if (k < 256) s[k] += s[k + step];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}
extern "C" __global__ void reduce_sequential(const float* __restrict__ in, float* __restrict__ out, int n) {
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (t < step) s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}
extern "C" __global__ void reduce_shuffle(const float* __restrict__ in, float* __restrict__ out, int n) {
    __shared__ float s[8];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    float v = i < n ? in[i] : 0.0f;
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(0xffffffffu, v, step);
    if (t % 32 == 0) s[t / 32] = v;
    __syncthreads();
    if (t < 8) {
        v = s[t];
        for (int step = 4; step > 0; step /= 2) v += __shfl_down_sync(0xffu, v, step);
        if (t == 0) out[blockIdx.x] = v;
    }
}

// ---- A product of two n×n matrices in shared tiles of 32×32
extern "C" __global__ void sgemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int n) {
    __shared__ float As[32][32], Bs[32][32];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
    float acc = 0.0f;
    for (int k0 = 0; k0 < n; k0 += 32) {
        As[ty][tx] = A[row * n + k0 + tx];
        Bs[ty][tx] = B[(k0 + ty) * n + col];
        __syncthreads();
        for (int k = 0; k < 32; ++k) acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    C[row * n + col] = acc;
}

// ---- Convolutions: columns of a 3×3 window, and a depthwise 3×3 with borders, at any stride
extern "C" __global__ void im2col(const float* __restrict__ x, float* __restrict__ columns, int H, int W, int oH, int oW,
                                  int stride, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int ow = i % oW, oh = i / oW % oH, kw = i / (oW * oH) % 3, kh = i / (oW * oH * 3) % 3, c = i / (oW * oH * 9);
    int ih = oh * stride - 1 + kh, iw = ow * stride - 1 + kw;
    float v = 0.0f;
    if (ih >= 0 && ih < H && iw >= 0 && iw < W) v = x[(c * H + ih) * W + iw];
    columns[i] = v;
}
extern "C" __global__ void depthwise(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y,
                                     int H, int W, int oH, int oW, int stride) {
    int pixel = blockIdx.x * blockDim.x + threadIdx.x, c = blockIdx.y;
    if (pixel >= oH * oW) return;
    int oh = pixel / oW, ow = pixel % oW;
    float acc = 0.0f;
#pragma unroll 1
    for (int kh = 0; kh < 3; ++kh) {
        int ih = oh * stride - 1 + kh;
        if (ih < 0 || ih >= H) continue;
#pragma unroll 1
        for (int kw = 0; kw < 3; ++kw) {
            int iw = ow * stride - 1 + kw;
            if (iw < 0 || iw >= W) continue;
            acc += x[(c * H + ih) * W + iw] * weight[c * 9 + kh * 3 + kw];
        }
    }
    y[c * oH * oW + pixel] = acc;
}

// ---- Vectors in shared memory. Thread t touches vector (t / divide % modulo) * stride of `in` in shared memory:
//      divide, modulo and stride make rows, columns and broadcasts, in three widths, for loads and for stores.
template <class T> __device__ __forceinline__ void load_pattern(const T* __restrict__ in, T* __restrict__ out, int divide, int modulo, int stride) {
    __shared__ T s[1024];
    const int t = threadIdx.x;
    for (int i = t; i < 1024; i += 256) s[i] = in[i];
    __syncthreads();
    out[t] = s[t / divide % modulo * stride];
}
template <class T> __device__ __forceinline__ void store_pattern(const T* __restrict__ in, T* __restrict__ out, int modulo, int stride) {
    __shared__ T s[1024];
    const int t = threadIdx.x;
    const int place = t % modulo * stride + t / modulo;  // one of its own for each thread
    s[place] = in[t];
    __syncthreads();
    out[t] = s[place];
}
extern "C" __global__ void load_float(const float* __restrict__ in, float* __restrict__ out, int divide, int modulo, int stride) {
    load_pattern(in, out, divide, modulo, stride);
}
extern "C" __global__ void load_float2(const float2* __restrict__ in, float2* __restrict__ out, int divide, int modulo, int stride) {
    load_pattern(in, out, divide, modulo, stride);
}
extern "C" __global__ void load_float4(const float4* __restrict__ in, float4* __restrict__ out, int divide, int modulo, int stride) {
    load_pattern(in, out, divide, modulo, stride);
}
extern "C" __global__ void store_float(const float* __restrict__ in, float* __restrict__ out, int modulo, int stride) {
    store_pattern(in, out, modulo, stride);
}
extern "C" __global__ void store_float2(const float2* __restrict__ in, float2* __restrict__ out, int modulo, int stride) {
    store_pattern(in, out, modulo, stride);
}
extern "C" __global__ void store_float4(const float4* __restrict__ in, float4* __restrict__ out, int modulo, int stride) {
    store_pattern(in, out, modulo, stride);
}

// ---- Elements of 1, 2 and 8 bytes through global and shared memory
template <class T> __device__ __forceinline__ void through_shared(const T* __restrict__ in, T* __restrict__ out, int n) {
    __shared__ T s[256];
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) s[threadIdx.x] = in[i];
    __syncthreads();
    if (i < n) out[i] = s[threadIdx.x ^ 1];  // the tail is even
}
extern "C" __global__ void bytes(const unsigned char* __restrict__ in, unsigned char* __restrict__ out, int n) { through_shared(in, out, n); }
extern "C" __global__ void halves(const __half* __restrict__ in, __half* __restrict__ out, int n) { through_shared(in, out, n); }
extern "C" __global__ void doubles(const double* __restrict__ in, double* __restrict__ out, int n) { through_shared(in, out, n); }

// ---- ldmatrix: a row of 8 halves per lane, `pitch` vectors of 16 bytes from row to row; swizzled: piece p of row r is
//      stored as piece p ^ r % 8
#include "ptx.h"
extern "C" __global__ void matrices(const uint4* __restrict__ in, unsigned* __restrict__ out, int pitch, int swizzled, int transposed) {
    __shared__ uint4 s[512];
    const int t = threadIdx.x;
    for (int i = t; i < 512; i += 32) s[i] = in[i];
    __syncthreads();
    unsigned r[4];
    const int row = t % 16, piece = t / 16;
    const uint4* mine = &s[row * pitch + (swizzled ? piece ^ row % 8 : piece)];
    if (transposed) ldmatrix_x4_trans(r, mine);
    else ldmatrix_x4(r, mine);
    for (int m = 0; m < 4; ++m) out[32 * m + t] = r[m];
}

// ---- cp.async: from global to shared memory in 4, 8 and 16 bytes; thread t fills vector t * stride
template <class T> __device__ __forceinline__ void fetch(T* smem, const T* global) {
    if (sizeof(T) == 16) cp_async_16(smem, global);
    else if (sizeof(T) == 8) cp_async_8(smem, global);
    else cp_async_4(smem, global);
}
template <class T> __device__ __forceinline__ void copy_async(const T* __restrict__ in, T* __restrict__ out, int stride) {
    __shared__ T s[1024];
    const int t = threadIdx.x, i = blockIdx.x * 128 + t;
    fetch(&s[t * stride], &in[i]);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    out[i] = s[t * stride];
}
extern "C" __global__ void async_4(const float* __restrict__ in, float* __restrict__ out, int stride) { copy_async(in, out, stride); }
extern "C" __global__ void async_8(const float2* __restrict__ in, float2* __restrict__ out, int stride) { copy_async(in, out, stride); }
extern "C" __global__ void async_16(const float4* __restrict__ in, float4* __restrict__ out, int stride) { copy_async(in, out, stride); }

// ---- Wrong kernels: the trace must find what compute-sanitizer finds
extern "C" __global__ void wrong_race(const float* __restrict__ in, float* __restrict__ out) {
    __shared__ float s[256];
    s[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = s[255 - threadIdx.x];  // no __syncthreads before it
}
extern "C" __global__ void wrong_bounds(const float* __restrict__ in, float* __restrict__ out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i];  // no comparison with the arrays' size
}
