// cuda_runtime.h - nothing to add: what a kernel needs is built in, as it is under NVRTC.
#pragma once
