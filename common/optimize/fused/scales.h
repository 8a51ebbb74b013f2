// scales.h - the powers of two that a block of pairs of halves multiplies its numbers by; split_weights.py chooses.
#pragma once

// x, dw: what they are multiplied by; x_back = 1 / x; hidden = 1 / (x · that of expand's weights), sums = 1 / (dw ·
// that of project's): what sums of their products are multiplied by
struct PairScales {
    float x, x_back, hidden, dw, sums;
};
