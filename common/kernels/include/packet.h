// packet.h - 8 bytes from a thread of one block to a thread of another one that runs at the same time, through global memory.
//
//   Packet packets[…]              in global memory, zeros before their first use
//   packet.send(number, data)      number: not 0, and another one than the last that was sent with this packet
//   packet.receive(number, mine)   waits for that number, and returns its data. It must not be sent again before. All threads of
//                                  all blocks come here, equally often, also those that receive nothing (mine): on the simulator
//                                  it is a barrier of the grid, and an assertion that the packet is there
//
// Data and number are written, and read, as 8 bytes that come together. So no fence orders them, and no flag follows them: who waits
// sees the data one trip through L2 after it was sent. (NCCL's protocol "LL" does the same.)
// The blocks must be on the card together: the launch has no more than fit, or is cooperative (always on the simulator).
#pragma once

struct Packet {
    uint4 both;  // half of the data, number, the other half, number

#ifdef __CUDA_SIMULATOR__
    SIM_MEMBER void send(unsigned number, uint2 data) { both = make_uint4(data.x, number, data.y, number); }
    SIM_MEMBER uint2 receive(unsigned number, bool mine) const {
        sim_grid_sync();
        if (!mine) return make_uint2(0, 0);
        assert(both.y == number && both.w == number);  // or a GPU waits for ever
        return make_uint2(both.x, both.z);
    }
#else
    __device__ __forceinline__ void send(unsigned number, uint2 data) {
        asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %2};" ::
                     "l"(__cvta_generic_to_global(this)), "r"(data.x), "r"(number), "r"(data.y) : "memory");
    }
    __device__ __forceinline__ uint2 receive(unsigned number, bool mine) const {
        uint4 v = make_uint4(0, number, 0, number);
        if (mine) do
            asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(__cvta_generic_to_global(this)) : "memory");
        while (v.y != number || v.w != number);
        return make_uint2(v.x, v.z);
    }
#endif
};
