// block_int8.h - what the kernels of int8 blocks have in common: how a block is compiled, and sizes that are rounded up.
//
//   SMALL_PROJECT    how project's sums are requantized, see requantize.h
//   ODD              whether the zero point of a tensor that is requantized in one step may be odd, see one_step.h
//   ONE_STEP         whether one fma requantizes all hidden channels
//   RESIDUAL         whether a residual is added
//   image_t          what a stem reads: signed char, or real numbers that become codes, float or __half
//   ceil_div(a, b), ceil_to(a, b)    a / b rounded up; the next multiple of b
#pragma once
#include "epilogue_int8.h"
#include "grid.h"
#include "one_step.h"

#ifndef SMALL_PROJECT
#define SMALL_PROJECT 0
#endif
#ifndef ODD
#define ODD 1
#endif
#ifndef ONE_STEP
#define ONE_STEP 0
#endif
#ifndef RESIDUAL
#define RESIDUAL 1
#endif
#ifndef image_t
#define image_t signed char
#endif

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ constexpr int ceil_to(int a, int b) { return ceil_div(a, b) * b; }
