// regions.h - where a library of kernels was loaded: its code, its variables, its static shared memory on this worker.
#pragma once
#include <stdint.h>
#if !defined(__APPLE__)
#include <link.h>
#endif

struct Region {
    uint64_t inside, low, high, shared_low, shared_high, data_low, data_high;
};
#if !defined(__APPLE__)
static int find_region(struct dl_phdr_info* info, size_t, void* result) {
    Region* r = (Region*)result;
    uint64_t low = ~0ull, high = 0, shared = 0, data_low = ~0ull, data_high = 0, fixed = 0;  // fixed: up to there read-only
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& segment = info->dlpi_phdr[i];
        if (segment.p_type == PT_LOAD && info->dlpi_addr + segment.p_vaddr < low) low = info->dlpi_addr + segment.p_vaddr;
        if (segment.p_type == PT_LOAD && info->dlpi_addr + segment.p_vaddr + segment.p_memsz > high)
            high = info->dlpi_addr + segment.p_vaddr + segment.p_memsz;
        if (segment.p_type == PT_TLS) shared = segment.p_memsz;
        const uint64_t start = info->dlpi_addr + segment.p_vaddr;
        if (segment.p_type == PT_GNU_RELRO) fixed = start + segment.p_memsz;
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_W)) continue;
        if (start < data_low) data_low = start;
        if (start + segment.p_memsz > data_high) data_high = start + segment.p_memsz;
    }
    if (r->inside < low || r->inside >= high) return 0;
    r->low = info->dlpi_addr, r->high = high;
    r->shared_low = (uint64_t)info->dlpi_tls_data, r->shared_high = r->shared_low + shared;
    if (data_low < fixed && fixed <= data_high) data_low = fixed;
    r->data_low = data_low < data_high ? data_low : 0, r->data_high = data_low < data_high ? data_high : 0;
    return 1;
}
#endif
// The library that holds the address `inside`. On macOS nothing is known of it, and nothing is traced.
static Region region_of(uint64_t inside) {
    Region r = {inside, 0, 0, 0, 0, 0, 0};
#if !defined(__APPLE__)
    dl_iterate_phdr(find_region, &r);
#endif
    return r;
}
