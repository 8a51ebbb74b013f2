// assert.h - nothing to add: assert() is built in, as it is under NVRTC.
#pragma once
