// entry.h - how the runtime gets at a kernel: two ways to run it, and the types of its parameters.
//
// SIM_ENTRY(number, kernel) exports a descriptor. Everything in it is deduced from the kernel's own type,
// so an argument of a wrong type is refused before the launch, also for templates and macros.
#pragma once

// ---- A parameter's type as text: "float32", "const float32*", "float32x4*", "struct24"
template <class T> struct SimType {
    static constexpr const char* name = 0;  // not a type that NumPy knows: passed as so many bytes
};
template <> struct SimType<void> { static constexpr const char* name = "void"; };
#define SIM_TYPE(T, text) template <> struct SimType<T> { static constexpr const char* name = text; };
SIM_TYPE(bool, "bool") SIM_TYPE(char, "int8") SIM_TYPE(signed char, "int8") SIM_TYPE(unsigned char, "uint8")
SIM_TYPE(short, "int16") SIM_TYPE(unsigned short, "uint16") SIM_TYPE(int, "int32") SIM_TYPE(unsigned, "uint32")
SIM_TYPE(long, "int64") SIM_TYPE(unsigned long, "uint64") SIM_TYPE(long long, "int64")
SIM_TYPE(unsigned long long, "uint64") SIM_TYPE(float, "float32") SIM_TYPE(double, "float64")
SIM_TYPE(float2, "float32x2") SIM_TYPE(float4, "float32x4") SIM_TYPE(double2, "float64x2")
SIM_TYPE(int2, "int32x2") SIM_TYPE(int4, "int32x4") SIM_TYPE(uint2, "uint32x2") SIM_TYPE(uint4, "uint32x4")
SIM_TYPE(char2, "int8x2") SIM_TYPE(char4, "int8x4") SIM_TYPE(uchar2, "uint8x2") SIM_TYPE(uchar4, "uint8x4")
SIM_TYPE(short2, "int16x2") SIM_TYPE(short4, "int16x4")

template <class T> struct SimDescribe {
    static constexpr SimParameter value = {SimType<T>::name, (unsigned)sizeof(T), false, true};
};
template <class T> constexpr unsigned sim_size() { return sizeof(T); }
template <> constexpr unsigned sim_size<void>() { return 1; }
template <class T> struct SimDescribe<T*> {
    static constexpr SimParameter value = {SimType<T>::name, sim_size<T>(), true, false};
};
template <class T> struct SimDescribe<const T*> {
    static constexpr SimParameter value = {SimType<T>::name, sim_size<T>(), true, true};
};

// Asking for its address makes the C library allocate this thread's copy of all the library's static shared memory.
static __thread int sim_shared_anchor;
SIM_HIDDEN static void* sim_shared_memory() { return &sim_shared_anchor; }

template <int... I> struct SimIndices {};
template <int N, int... I> struct SimCount : SimCount<N - 1, N - 1, I...> {};
template <int... I> struct SimCount<0, I...> { typedef SimIndices<I...> indices; };

template <auto kernel> struct SimEntry;
template <class... A, void (*kernel)(A...)> struct SimEntry<kernel> {
    template <int... I> SIM_HIDDEN static SIM_MEMBER void call(void** arguments, SimIndices<I...>) { kernel(*(A*)arguments[I]...); }
    SIM_HIDDEN static void run_thread(void** arguments) { call(arguments, typename SimCount<sizeof...(A)>::indices()); }
    SIM_HIDDEN static void run_block(void** arguments) {
        const uint3 size = blockDim;
        for (unsigned z = 0; z < size.z; ++z)
            for (unsigned y = 0; y < size.y; ++y)
                for (unsigned x = 0; x < size.x; ++x) {
                    sim_here.thread_index = uint3{x, y, z};
                    call(arguments, typename SimCount<sizeof...(A)>::indices());
                }
    }
    static constexpr SimParameter parameters[sizeof...(A) + 1] = {SimDescribe<A>::value..., {0, 0, false, false}};
    static constexpr SimKernel descriptor = {(int)sizeof...(A), parameters, run_thread, run_block, sim_shared_memory};
};

// The kernel's __cluster_dims__: blocks of a cluster in each direction.
struct SimCluster {
    unsigned x = 1, y = 1, z = 1;
};
#define SIM_CLUSTER(number, ...)                                                                        \
    extern "C" __attribute__((visibility("default"))) const unsigned* sim_kernel_cluster_##number() {   \
        static constexpr SimCluster cluster = {__VA_ARGS__};                                            \
        return &cluster.x;                                                                                 \
    }

// the kernel's name comes last because a template's name may hold commas
#define SIM_ENTRY(number, ...)                                                                  \
    extern "C" __attribute__((visibility("default"))) const SimKernel* sim_kernel_##number() {  \
        return &SimEntry<(__VA_ARGS__)>::descriptor;                                            \
    }
