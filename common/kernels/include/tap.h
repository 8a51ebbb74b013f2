// tap.h - what one row of im2col stands for: a channel under one tap of the kernel.
//
//   Tap<CHANNELS_LAST> tap(k, channels, kH, kW);    tap.c, tap.kh, tap.kw of row k
//   tap.next(channels, kH, kW);                     those of row k + 1, without a division
//
// Channels last (NHWC) the channels of a tap follow each other, else (NCHW) the taps of a channel.
#pragma once

template <bool CHANNELS_LAST> struct Tap {
    int c, kh, kw;
    __device__ Tap(int k, int channels, int kH, int kW)
        : c(CHANNELS_LAST ? k % channels : k / (kH * kW)),
          kh(CHANNELS_LAST ? k / channels / kW : k / kW % kH),
          kw(CHANNELS_LAST ? k / channels % kW : k % kW) {}
    __device__ void next(int channels, int kH, int kW) {
        if (CHANNELS_LAST) {
            if (++c < channels) return;
            c = 0;
        }
        if (++kw < kW) return;
        kw = 0;
        if (++kh < kH || CHANNELS_LAST) return;
        kh = 0, ++c;
    }
};
