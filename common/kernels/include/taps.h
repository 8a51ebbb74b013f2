// taps.h - 3×3 filters on int8 numbers in NHWC by dp4a: four pixels beside each other, four channels each.
//
//   transpose(p)          p[k]: four channels of pixel k → p[e]: four pixels of channel e, as bytes; 8 prmt
//   filters(w, packed)    w[e][kh]: the bytes (w0, w1, w2, 0) of row kh of channel e's filter, out of 36 bytes [channel][kh][kw]
//
// __dp4a(p[e], w[e][kh], sum) adds a row of taps for the output whose window begins at pixel 0, and with w[e][kh] << 8, the
// bytes (0, w0, w1, w2), for the one whose window begins at pixel 1.
#pragma once

__device__ __forceinline__ void transpose(unsigned (&p)[4]) {
    const unsigned low01 = __byte_perm(p[0], p[1], 0x5140), high01 = __byte_perm(p[0], p[1], 0x7362);
    const unsigned low23 = __byte_perm(p[2], p[3], 0x5140), high23 = __byte_perm(p[2], p[3], 0x7362);
    p[0] = __byte_perm(low01, low23, 0x5410), p[1] = __byte_perm(low01, low23, 0x7632);
    p[2] = __byte_perm(high01, high23, 0x5410), p[3] = __byte_perm(high01, high23, 0x7632);
}

__device__ __forceinline__ void filters(unsigned (&w)[4][3], const unsigned (&packed)[9]) {
#pragma unroll
    for (int k = 0; k < 12; ++k) {  // filter row k begins at byte 3k
        const int word = 3 * k / 4;
        w[k / 3][k % 3] = __funnelshift_r(packed[word], packed[word < 8 ? word + 1 : 8], 3 * k % 4 * 8) & 0xffffff;
    }
}
