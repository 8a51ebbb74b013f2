// operand.h - what the instruction that raised a signal works on, where the system does not say: x86-64 alone.
//
// x86 gives no address where one is misaligned or cannot be ("not canonical"), and does not say what a division divides
// by. Both stand in the instruction: prefixes, opcode, the ModRM byte, perhaps a SIB byte and a displacement.
#pragma once
#include <stdint.h>
#include <ucontext.h>

struct Operand {
    bool in_memory, divides;
    uint64_t value;  // in_memory: its address; divides: what is divided by
};
static bool is_canonical(uint64_t address) { return (uint64_t)((int64_t)(address << 16) >> 16) == address; }

#if defined(__linux__) && defined(__x86_64__)
static Operand operand_of(const void* context) {
    static const int registers[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                      REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    const Operand unknown = {false, false, 0};
    const greg_t* values = ((const ucontext_t*)context)->uc_mcontext.gregs;
    const uint8_t* p = (const uint8_t*)values[REG_RIP];
    if (!is_canonical((uint64_t)p)) return unknown;  // the jump there is what failed
    bool wide = false, half = false, scaled = false;
    int index_bit = 0, base_bit = 0, map = 0;
    for (;; ++p) {
        if (*p == 0x64 || *p == 0x65 || *p == 0x67) return unknown;  // thread-local, or addresses of 32 bits
        half |= *p == 0x66;
        if (*p != 0x66 && *p != 0xf2 && *p != 0xf3 && *p != 0xf0 && *p != 0x2e && *p != 0x3e) break;
    }
    if (*p == 0xc5) {
        p += 2, map = 1;
    } else if (*p == 0xc4 || *p == 0x62) {
        scaled = *p == 0x62;  // EVEX: a displacement of one byte counts vectors
        index_bit = p[1] & 0x40 ? 0 : 8, base_bit = p[1] & 0x20 ? 0 : 8, map = p[1] & 7;
        p += scaled ? 4 : 3;
    } else {
        if ((*p & 0xf0) == 0x40) wide = *p & 8, index_bit = *p & 2 ? 8 : 0, base_bit = *p & 1 ? 8 : 0, ++p;
        if (*p == 0x0f) ++p, map = *p == 0x38 ? 2 : *p == 0x3a ? 3 : 1, p += map > 1;
    }
    const uint8_t opcode = *p++, modrm = *p++;
    const int mode = modrm >> 6, base = modrm & 7;
    const bool gathers = map == 2 && ((opcode >= 0x90 && opcode <= 0x93) || (opcode >= 0xa0 && opcode <= 0xa3));
    const bool moves_strings = map == 0 && opcode >= 0xa4 && opcode <= 0xaf;
    if (gathers || moves_strings || (scaled && mode == 1)) return unknown;
    const bool divides = map == 0 && (opcode & 0xfe) == 0xf6 && (modrm >> 3 & 7) >= 6;
    const int bytes = opcode == 0xf6 ? 1 : wide ? 8 : half ? 2 : 4;
    uint64_t value;
    if (mode == 3) {
        if (!divides || bytes == 1) return unknown;
        value = (uint64_t)values[registers[base | base_bit]];
    } else {
        if (mode == 0 && base == 5) return unknown;  // relative to the next instruction: of the library itself
        if (base == 4) {
            const int sib = *p++, index = (sib >> 3 & 7) | index_bit;
            const bool no_base = mode == 0 && (sib & 7) == 5;
            value = no_base ? (uint64_t)(int64_t)*(const int32_t*)p : (uint64_t)values[registers[(sib & 7) | base_bit]];
            if (index != 4) value += (uint64_t)values[registers[index]] << (sib >> 6);
        } else {
            value = (uint64_t)values[registers[base | base_bit]];
        }
        if (mode == 1) value += (uint64_t)(int64_t)*(const int8_t*)p;
        if (mode == 2) value += (uint64_t)(int64_t)*(const int32_t*)p;
        if (!divides) return Operand{true, false, value};
        uint64_t divisor = 0;
        memcpy(&divisor, (const void*)value, bytes);
        value = divisor;
    }
    return Operand{false, true, bytes == 8 ? value : value & ((1ull << 8 * bytes) - 1)};
}
#else
static Operand operand_of(const void*) { return Operand{false, false, 0}; }
#endif
