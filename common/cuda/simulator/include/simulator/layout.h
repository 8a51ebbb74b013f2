// layout.h - structures that kernels and the runtime share. Both include this file, so that they cannot differ.
#pragma once

struct uint3 {
    unsigned x, y, z;
};
struct SimHere {  // where a CUDA thread stands; the runtime sets it before it lets the thread run
    uint3 thread_index, block_index, block_size, grid_size;
    void* dynamic_shared;
    void* block;
};
struct SimParameter {
    const char* type;  // as NumPy names it; 0: a structure
    unsigned size;     // bytes
    bool pointer, constant;
};
struct SimKernel {
    int parameter_count;
    const SimParameter* parameters;
    void (*run_thread)(void** arguments);  // one CUDA thread, the one that sim_here names
    void (*run_block)(void** arguments);   // all of a block, one after the other: no barrier can be met
    void* (*shared_memory)();              // an address in this library's static shared memory
};
