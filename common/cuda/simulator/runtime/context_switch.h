// context_switch.h - leaves one stack and goes on with another: what makes a thousand CUDA threads fit one CPU thread.
//
// context_switch(&saved, target) pushes the registers that a called function must preserve, stores the stack
// pointer in `saved`, takes `target` as the stack pointer and pops. It returns where `target` was left.
// About 20 ns; swapcontext() would add a system call for the signal mask.
#pragma once
#include <stdint.h>
#include <string.h>

#if defined(__APPLE__)
#define ASM_NAME(name) "_" #name
#else
#define ASM_NAME(name) #name
#endif

extern "C" void context_switch(void** saved, void* target);

#if defined(__x86_64__)
asm(".text\n"
    ".globl " ASM_NAME(context_switch) "\n"
    ASM_NAME(context_switch) ":\n"
    "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
    "movq %rsp, (%rdi)\n"
    "movq %rsi, %rsp\n"
    "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
    "ret\n");
enum { SAVED_WORDS = 8, RETURN_WORD = 6 };  // six registers, the return address, one word for alignment
#elif defined(__aarch64__)
asm(".text\n"
    ".globl " ASM_NAME(context_switch) "\n"
    ASM_NAME(context_switch) ":\n"
    "sub sp, sp, #160\n"
    "stp x19, x20, [sp]\n stp x21, x22, [sp, #16]\n stp x23, x24, [sp, #32]\n"
    "stp x25, x26, [sp, #48]\n stp x27, x28, [sp, #64]\n stp x29, x30, [sp, #80]\n"
    "stp d8, d9, [sp, #96]\n stp d10, d11, [sp, #112]\n stp d12, d13, [sp, #128]\n stp d14, d15, [sp, #144]\n"
    "mov x9, sp\n str x9, [x0]\n mov sp, x1\n"
    "ldp x19, x20, [sp]\n ldp x21, x22, [sp, #16]\n ldp x23, x24, [sp, #32]\n"
    "ldp x25, x26, [sp, #48]\n ldp x27, x28, [sp, #64]\n ldp x29, x30, [sp, #80]\n"
    "ldp d8, d9, [sp, #96]\n ldp d10, d11, [sp, #112]\n ldp d12, d13, [sp, #128]\n ldp d14, d15, [sp, #144]\n"
    "add sp, sp, #160\n"
    "ret\n");
enum { SAVED_WORDS = 20, RETURN_WORD = 11 };
#else
#error "the simulator runs on x86-64 and aarch64"
#endif

// A stack that, when switched to, starts `function`. `top` is the first byte above the stack.
static inline void* fresh_stack(char* top, void (*function)()) {
    void** words = (void**)((uintptr_t)top & ~(uintptr_t)15) - SAVED_WORDS;
    memset(words, 0, SAVED_WORDS * sizeof(void*));
    words[RETURN_WORD] = (void*)function;
    return words;
}
