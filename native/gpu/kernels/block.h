// The vocabulary of all kernels. They compile for a GPU with nvcc or NVRTC, and for
// the host with any C++17 compiler, where a block of threads is a loop.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;

#ifdef __CUDACC__
#define DEVICE __device__ inline
#define KERNEL extern "C" __global__ void __launch_bounds__(512)
// The stream of a block and its table take about 54 KiB of shared memory, so a
// multiprocessor with 228 KiB can run four blocks, if their registers suffice for them.
#define STREAM_KERNEL extern "C" __global__ void __launch_bounds__(512, 4)
#else
#define DEVICE inline
#endif

// The largest number of threads of a block, which is also the number in the macros.
static const u32 MAX_THREADS = 512;

// A block of threads. A kernel consists of phases: all threads finish one phase before
// any of them starts the next, and share no data inside a phase except through atomic
// operations. Whatever a thread needs in a later phase is in shared memory.
struct Block {
    u32 threads;
    // The host runs the threads of a phase in reverse order, which gives another result
    // if they share data.
    bool is_reversed;
};

// Runs one phase: calls `body` with the number of each thread.
template <class Body>
DEVICE void phase(const Block& block, Body body) {
#ifdef __CUDACC__
    body(threadIdx.x);
    __syncthreads();
#else
    for (u32 k = 0; k < block.threads; k++) {
        body(block.is_reversed ? block.threads - 1 - k : k);
    }
#endif
}

// The number of threads of a warp.
static const u32 LANES = 32;

// A value for each thread of a warp.
template <class Value>
struct PerLane {
#ifdef __CUDACC__
    Value value;
    DEVICE Value& operator[](u32) { return value; }
#else
    Value values[LANES];
    Value& operator[](u32 lane) { return values[lane]; }
#endif
};

// Calls `body` with the number of each thread of a warp. All threads of a warp have to call
// this function and the next two ones, with equal values except for those per lane.
template <class Body>
DEVICE void lanes(const Block& block, Body body) {
#ifdef __CUDACC__
    body(threadIdx.x % LANES);
    __syncwarp();
#else
    for (u32 k = 0; k < LANES; k++) body(block.is_reversed ? LANES - 1 - k : k);
#endif
}

// Calls `body` with the number of each thread of a warp. Returns the set of threads for which
// it returns true, to all of them.
template <class Body>
DEVICE u32 vote(const Block& block, Body body) {
#ifdef __CUDACC__
    return __ballot_sync(0xFFFFFFFF, body(threadIdx.x % LANES));
#else
    u32 set = 0;
    lanes(block, [&](u32 lane) { set |= (u32)(body(lane) ? 1 : 0) << lane; });
    return set;
#endif
}

// Replaces the number of each thread of a warp by the sum of the numbers of the threads before
// it. Returns the sum of all numbers.
DEVICE u32 add_up(PerLane<u32>& numbers) {
#ifdef __CUDACC__
    const u32 lane = threadIdx.x % LANES, own = numbers.value;
    u32 sum = own;
    for (u32 step = 1; step < LANES; step *= 2) {
        u32 before = __shfl_up_sync(0xFFFFFFFF, sum, step);
        if (lane >= step) sum += before;
    }
    numbers.value = sum - own;
    return __shfl_sync(0xFFFFFFFF, sum, LANES - 1);
#else
    u32 sum = 0;
    for (u32 lane = 0; lane < LANES; lane++) {
        u32 own = numbers[lane];
        numbers[lane] = sum;
        sum += own;
    }
    return sum;
#endif
}

// Calls `body` with the number of each warp of a block, of which there are `WARPS`.
template <u32 WARPS, class Body>
DEVICE void each_warp(Body body) {
#ifdef __CUDACC__
    body(threadIdx.x / LANES);
#else
    for (u32 warp = 0; warp < WARPS; warp++) body(warp);
#endif
}

// Replaces the number at `place` by `value` if `value` is smaller.
DEVICE void lower_to(u32* place, u32 value) {
#ifdef __CUDACC__
    atomicMin(place, value);
#else
    if (value < *place) *place = value;
#endif
}

DEVICE u32 smaller(u32 a, u32 b) { return a < b ? a : b; }

// Returns the number of bits that are set.
DEVICE u32 count_bits(u32 word) {
#ifdef __CUDACC__
    return (u32)__popc((i32)word);
#else
    return (u32)__builtin_popcount(word);
#endif
}

// Returns four bytes, of which the first is the lowest.
DEVICE u32 four_bytes(const u8* from) {
    if ((u64)from % 4 == 0) return *(const u32*)from;
    return from[0] | from[1] << 8 | from[2] << 16 | (u32)from[3] << 24;
}
