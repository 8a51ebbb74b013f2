// block.h - a whole inverted-residual block of MobileNetV2 on one SM: hidden activations never leave it.
//
//   Fused<S> block(shared);         S: a struct of numbers, which generate.py writes; its Tile says what they are
//   block.prefetch(w);              the first slices of the weights are on their way: needs no kernel before this one
//   block.open();                   of a cluster: then cluster_started or cluster_sync
//   block.run(x, w, residual, y, N, first, step);      tiles first, first + step, …; waits for the kernel before this
//                                                      one where it first reads what that one has written
//
// A thread block takes a tile of TILE_H×TILE_W output pixels of IMAGES images and holds its x, with a halo, in shared
// memory. It walks over the hidden channels, SLICE at a time. A depthwise convolution mixes no channels, so a warp
// expands and convolves 16·PLANES channels of its own, all pixels of them, and waits for nobody (or WARPS_P warps share
// the pixels):
//
//     x tile  ──expand (mma)──►  hidden, of a warp  ──depthwise──►    dw slice  ──project (mma)──►  sums in registers
//     shared                     shared                                shared
//
// The two first of them may also be chained: hidden channels are then in registers alone. Their rows slide through
// registers (sliding.h), but for halves at stride 2: there expand computes a pixel for each tap over it (chained.h).
//
// Only project needs the channels of all warps: two barriers per slice. y is written when the last slice is in. A block
// that takes several tiles asks for the next one's x as soon as nobody reads this one's any more. With
// SPLIT > 1 a cluster of SPLIT blocks shares a tile: each takes its part of the hidden channels, and at the end sends
// its sums where they are added up, each block's part of the outputs in its own shared memory. All of them must have
// started by then.
//
// What is spent where:  tensor cores   expand and project: C·hidden and hidden·O multiply-accumulates a pixel; of
//                                      halves also the depthwise, as products with diagonal matrices
//                       issue slots    depthwise of floats: 9 FMA an element; bias, clamp, store of the hidden channels
//                       shared memory  x tile + hidden slice + dw slice + STAGES slices of weights; x is read once
//                       registers      TILE pixels × O sums, over all threads; a warp's weights of expand
//
// Its parts:  numbers.h     ceil_div, clamping               load.h         weights, x, zeros into shared memory
//             arithmetic.h  what a product is                image.h        a stem's x, and the scale of its halves
//             expand.h, depthwise.h, project.h    the convolutions; diagonal.h: depthwise on tensor cores
//             geometry.h    sizes, and which pixel is where  cluster_sum.h  a tile that several blocks share
//             chained.h, sliding.h     expand and depthwise in registers    scales.h    of pairs of halves
//             workspace.h   whose thread, whose memory       persistent.h   blocks one after the other in a kernel
// warpgroups.h is another way to compute the same, with Hopper's wgmma: for halves and many images. alone.h is a third
// one, for halves and many pixels: no warp waits for another one; alone_pairs.h is the same for floats.
#pragma once
#include "fused/chained.h"
#include "fused/cluster_sum.h"
#include "fused/sliding.h"
#include "grid.h"

template <class S> struct OneTile {  // the usual crew: all threads of a block take one tile at a time
    static constexpr int BLOCK = S::THREADS;
    static constexpr bool CLEARS = true, WAITS = PROGRAMMATIC;
    using Post = Mail;
    __device__ __forceinline__ static int thread() { return threadIdx.x; }
    __device__ __forceinline__ static int team() { return 0; }
    __device__ __forceinline__ static bool works(int) { return true; }
};

// The weights of expand, or if chained of both convolutions, in registers.
template <class S, bool CHAINED, bool SLIDES> struct ExpandingOf { using type = ExpandWeights<S>; };
template <class S> struct ExpandingOf<S, true, true> { using type = SlidingWeights<S>; };
template <class S> struct ExpandingOf<S, true, false> { using type = ChainedWeights<S>; };

template <class S, class Crew = OneTile<S>> struct Fused {
    using G = Geometry<S>;
    using T = typename S::T;
    using W = ::Weights<typename S::Arithmetic>;
    static constexpr int WORK = Workspace<S, Crew>::WORK, WEIGHTS = G::WEIGHTS, SHARED = WORK + WEIGHTS;
    using Expanding = typename ExpandingOf<S, S::CHAINED, G::SLIDES>::type;
    static constexpr bool SPLITS = S::Arithmetic::PIECE != G::E && S::EXPAND == POINTWISE;  // x, once it is here
    static constexpr bool AHEAD = S::LOOPS && S::SPLIT == 1 && S::EXPAND != NONE;  // asks for the next tile's x

    Workspace<S, Crew> at;

    __device__ __forceinline__ explicit Fused(void* shared, unsigned rank_in_cluster = 0)
        : at(shared, (char*)shared + WORK, rank_in_cluster, 0) {}
    __device__ __forceinline__ Fused(void* work, void* weights, unsigned rank_in_split, unsigned first_of_split)
        : at(work, weights, rank_in_split, first_of_split) {}

    __device__ __forceinline__ void open() {
        if constexpr (S::SPLIT > 1) at.post.open(at.thread);
    }
    __device__ __forceinline__ void prefetch(const W& w) { ::prefetch(at, w); }
    __device__ __forceinline__ void clear() { ::clear(at); }
    __device__ __forceinline__ void run(const T* x, const W& w, const T* residual, T* y, int N, int first, int step) {
        walk(x, w, residual, y, N, first, step, 0, Nothing());
    }

    // Threads that wait for each other, those of a block or of a cluster, give the same first and step, and take tile
    // first + own, if there is one, own being their team's. after() is called once, when nothing is waited for any more
    // that cp.async brings for the first slice. A grid with a block for each tile has no loop (S::LOOPS).
    template <class After>
    __device__ __forceinline__ void walk(const T* x, const W& w, const T* residual, T* y, int N, int first, int step,
                                         int own, const After& after) {
        const int tiles = ceil_div(N, S::IMAGES) * G::TILES_H * G::TILES_W;
        Image<S, Crew> image;
        if constexpr (S::LOOPS) {
#pragma unroll 1
            for (int start = first; start < tiles; start += step)
                take(image, x, w, residual, y, N, start + own, Crew::works(at.team) ? tiles : 0, step, start == first,
                     start + step >= tiles, after);
        } else take(image, x, w, residual, y, N, first, tiles, step, true, true, after);
        if (S::LOOPS && first >= tiles) after();
    }

    // x of a tile: under way to shared memory, or a stem's in registers
    __device__ __forceinline__ void fetch(Image<S, Crew>& image, const T* x, const Spot<S>& spot) {
        if constexpr (S::EXPAND == STEM) image.load(at, x, spot);
        else if constexpr (S::EXPAND == POINTWISE) fetch_x(at, x, spot);
    }

    // A tile, by those threads that have one (busy). is_first, is_last: of those that this block takes.
    template <class After>
    __device__ __forceinline__ void take(Image<S, Crew>& image, const T* x, W w, const T* residual, T* y, int N,
                                         int tile, int tiles, int step, bool is_first, bool is_last,
                                         const After& after) {
        const Spot<S> spot(tile, N);
        const bool busy = !S::LOOPS || tile < tiles;
        const bool waits = Crew::WAITS && is_first;  // what needs nothing of the kernel before comes before that wait
        if (!is_first && !G::RESIDENT) prefetch(w);
        if (busy && !waits && !(AHEAD && !is_first)) fetch(image, x, spot);
        if constexpr (S::EXPAND != NONE)
            if (busy && !S::CHAINED) make_rows(at, spot);
        if (Crew::CLEARS && is_first) clear();
        if (S::READS_RESIDUAL && waits) wait_for_inputs();
        // A residual is read before anything else is waited for. Else sums of halves, of a single slice, begin when
        // they are needed, and take no registers before; of floats that made a stem slower.
        constexpr bool LATE = G::FP16 && G::SLICES == 1 && !S::READS_RESIDUAL;
        Sums<S> acc = {};
        ProjectBias<S> bias = {};
        if (busy) get_bias(bias, at, w);
        if (busy && !LATE) begin(acc, bias, at, residual, spot);
        if (waits) {
            wait_for_inputs();
            if (busy) fetch(image, x, spot);
        }
        // What follows may come and fetch its weights: behind this tile's x, which is waited for, and no later.
        if (is_last) launch_dependents();
        if constexpr (G::MEASURES) {
            if (busy) image.measure(at);
            __syncthreads();
            if (busy) image.put(at, w);
        } else if constexpr (S::EXPAND == STEM)
            if (busy) image.put(at, x, spot);
        const auto fetch_next = [&] {
            if (tile + step < tiles) fetch(image, x, Spot<S>(tile + step, N));
        };
        Expanding weights;
        if constexpr (G::ONCE) {
            cp_async_wait<1>();  // all but x
            __syncthreads();
            weights.load(at, at.stages, 0);
        }
#pragma unroll 1
        for (int slice = 0; slice < G::SLICES; ++slice) {
            const T* const now = at.stages + slice % G::STAGES * G::STAGE;
            if constexpr (S::EXPAND == NONE) {
                if (busy) fetch_hidden(at, x, spot, slice);
                cp_async_wait<0>();
                __syncwarp();
            }
            if (slice == 0) {
                cp_async_wait<0>();
                if constexpr (SPLITS)
                    if (busy) split_x(at, w);
                __syncthreads();
                if (is_first) after();
            }
            if constexpr (S::EXPAND != NONE && !S::CHAINED)
                if (busy) expand(at, now, w, weights);
            // all have read dw, and the weights before these
            if (slice > 0 || (S::WARPS_P > 1 && !S::CHAINED)) __syncthreads();
            if (!G::RESIDENT) {
                if (slice + G::STAGES - 1 < G::SLICES) fetch_slice(at, w, slice + G::STAGES - 1);
                cp_async_commit();
            }
            if constexpr (G::SLIDES) {
                if (busy) sliding(at, now, w, spot, weights);
            } else if constexpr (S::CHAINED) {
                if (busy) chained(at, now, w, spot, weights);
            } else if (busy) depthwise(at, now, w);
            if (!G::RESIDENT) cp_async_wait<G::STAGES - 2>();
            __syncthreads();
            if (AHEAD && !S::ADDS_X && slice == G::SLICES - 1) fetch_next();
            if (LATE) begin(acc, bias, at, residual, spot);
            if (busy) project(acc, at, now, w);
        }
        if constexpr (S::ADDS_X)
            if (busy && at.rank == 0) add_x(acc, at, w);
        T* const y_tile = y + spot.first_out();
        if constexpr (S::SPLIT == 1) {
            // the next tile's weights come, and its x, where slow warps may still read
            if (S::LOOPS && (!G::RESIDENT || S::ADDS_X || !AHEAD || is_last)) __syncthreads();
            if (AHEAD && S::ADDS_X) fetch_next();
            write_tile(acc, at, w, y_tile, spot, busy);
        } else {
            add_cluster(acc, at, w, y_tile, spot, busy);
            if (!is_last) cluster_sync();        // nobody puts the next sums where another one still reads
            else if (S::LOOPS) __syncthreads();  // nor clears what slow warps still read
        }
    }
};
