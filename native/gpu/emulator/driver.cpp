// The part of NVIDIA's driver interface that `zstn-gpu` uses, for tests on machines
// without a GPU. Kernels run on the host, one thread at a time. A stream does nothing
// before something waits for it, so work that does not wait, or that uses memory which
// its caller has freed, gives wrong results. Mistakes end the process.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "kernels.cu"

namespace {

const int OUT_OF_MEMORY = 2;
const int INVALID_DEVICE = 101;
const int COMPUTE_CAPABILITY_MAJOR = 75;
const int MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;
// The shared memory that a block has at most on GPUs with compute capability 8.6.
const int MAX_SHARED_BYTES = 99 << 10;

struct Stream {
    std::vector<std::function<void()>> work;
    void run() {
        auto all = std::move(work);
        work.clear();
        for (auto& item : all) item();
    }
};

struct Event {
    Stream* stream = nullptr;
};

[[noreturn]] void fail(const char* problem) {
    fprintf(stderr, "driver: %s\n", problem);
    abort();
}

// Guards all of the following.
std::recursive_mutex lock;
std::map<u64, size_t> allocations;
// Memory of the test that kernels may write to.
std::map<u64, size_t> lent;
size_t allocated = 0;
std::map<void*, size_t> pinned;
size_t pinned_bytes = 0;
Stream default_stream;
thread_local void* current_context = nullptr;

using Guard = std::lock_guard<std::recursive_mutex>;

Stream& of(void* stream) { return stream ? *(Stream*)stream : default_stream; }

void check_context() {
    if (!current_context) fail("the thread has no context");
}

// Fails unless the range lies in one allocation, or in one block that a test has lent.
void check_range(u64 address, size_t len) {
    for (auto* blocks : {&allocations, &lent}) {
        auto after = blocks->upper_bound(address);
        if (after == blocks->begin()) continue;
        auto found = std::prev(after);
        if (address + len <= found->first + found->second) return;
    }
    fail("a range is outside of all allocations");
}

// Returns a number of bytes of the environment.
size_t limit(const char* variable) {
    const char* text = getenv(variable);
    return text ? strtoull(text, nullptr, 10) : SIZE_MAX;
}

// The memory of the device in bytes, which the environment may limit.
size_t memory_size() { return limit("ZSTN_EMULATED_MEMORY_BYTES"); }

void check_output(const Launch& launch, u64 offset, u64 len) {
    if (len > 0) check_range((u64)launch.output + offset, len);
}

// Fails if a job would write outside of all allocations.
void check_segment(const Launch& launch, u32 number) {
    const Segment& segment = launch.segments[number];
    const PlannedPlane& plane = launch.planes[segment.plane];
    if (plane.space == IN_OUTPUT) check_output(launch, plane.at + segment.position, segment.len);
}

template <class AnyTile> void check_tile(const Launch& launch, const AnyTile& tile) {
    const JoinedTensor& tensor = launch.tensors[tile.tensor];
    u64 width = tensor.item_bytes;
    check_output(launch, tensor.output + tile.first * width, tile.count * width);
}

void check_block(const Launch& launch, u32 number) {
    const DifferenceBlock& block = launch.difference_blocks[number];
    const PlannedDifference& tensor = launch.differences[block.difference];
    u64 first = (u64)block.number * tensor.block_elements, left = tensor.elements - first;
    u64 count = left < tensor.block_elements ? left : tensor.block_elements;
    check_output(launch, tensor.output + first * tensor.item_bytes, count * tensor.item_bytes);
}

void run_block(const std::string& name, const Launch& launch, const void* jobs, Block block, u32 k, u32 shared_len) {
    // The dynamic shared memory has exactly the length that the launch states.
    std::vector<u8> memory(shared_len, 0xA5);
    if (name == "expand_tables") {
        memory.resize(sizeof(TableShared));
        expand_table(block, launch, k, memory.data());
    } else if (name == "decode_segments") {
        check_segment(launch, ((const u32*)jobs)[k]);
        decode_segment(block, launch, ((const u32*)jobs)[k], memory.data());
    } else if (name == "copy_segments") {
        check_segment(launch, ((const u32*)jobs)[k]);
        copy_segment(block, launch, ((const u32*)jobs)[k]);
    } else if (name == "decode_rans_streams") {
        memory.resize(sizeof(RansShared));
        const RansChunks& chunks = ((const RansChunks*)jobs)[k];
        for (u32 j = 0; j < chunks.count; j++) check_segment(launch, chunks.first + j);
        decode_rans(block, launch, chunks, memory.data());
    } else if (name == "join_bfloat16_tiles") {
        check_tile(launch, ((const Tile*)jobs)[k]);
        join_bfloat16(block, launch, ((const Tile*)jobs)[k], memory.data());
    } else if (name == "join_tiles") {
        check_tile(launch, ((const Tile*)jobs)[k]);
        join_tile(block, launch, ((const Tile*)jobs)[k]);
    } else if (name == "join_lattice_tiles") {
        check_tile(launch, ((const Tile*)jobs)[k]);
        join_lattice(block, launch, ((const Tile*)jobs)[k]);
    } else if (name == "count_sparse_tiles") {
        memory.resize(sizeof(SparseShared));
        count_sparse(block, launch, ((const SparseTile*)jobs)[k], memory.data());
    } else if (name == "add_up_sparse_tensors") {
        memory.resize(sizeof(SumShared));
        add_up_sparse(block, launch, ((const SparseSum*)jobs)[k], memory.data());
    } else if (name == "join_sparse_tiles") {
        memory.resize(sizeof(SparseShared));
        check_tile(launch, ((const SparseTile*)jobs)[k]);
        join_sparse(block, launch, ((const SparseTile*)jobs)[k], memory.data());
    } else if (name == "save_bases" || name == "apply_xors") {
        const XorTile& tile = ((const XorTile*)jobs)[k];
        check_output(launch, tile.output, tile.len);
        check_range((u64)launch.scratch + tile.base, tile.len);
        (name == "save_bases" ? save_base : apply_xor)(block, launch, tile);
    } else if (name == "hash_tiles") {
        memory.resize(sizeof(DigestShared));
        const DigestTile& tile = ((const DigestTile*)jobs)[k];
        check_output(launch, launch.digests[tile.digest].output + tile.first, tile.len);
        check_range((u64)launch.scratch + tile.value, sizeof(ChainingValue));
        hash_tile(block, launch, tile, memory.data());
    } else if (name == "compare_digests") {
        const DigestSum& sum = ((const DigestSum*)jobs)[k];
        check_range((u64)launch.scratch + sum.values, 2 * (u64)sum.tiles * sizeof(ChainingValue));
        compare_digest(block, launch, sum);
    } else if (name == "decode_difference_blocks") {
        const DifferenceBlocks& blocks = ((const DifferenceBlocks*)jobs)[k];
        for (u32 j = 0; j < blocks.count; j++) check_block(launch, blocks.first + j);
        if (block.threads != LANES * DIFFERENCE_WARPS) fail("a block has another number of warps");
        decode_differences(block, launch, blocks, memory.data());
    } else {
        fail("there is no kernel of this name");
    }
}

}  // namespace

extern "C" {

// Lets kernels and copies write to memory of the test.
void emulator_lend(u64 address, size_t len) {
    Guard guard(lock);
    lent[address] = len;
}
void emulator_take_back(u64 address) {
    Guard guard(lock);
    lent.erase(address);
}

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* version) {
    *version = 12000;
    return 0;
}
int cuGetErrorString(int, const char** text) {
    *text = "the emulator has no such device, or too little memory";
    return 0;
}
int cuDeviceGet(int* device, int number) {
    *device = number;
    return number == 0 ? 0 : INVALID_DEVICE;
}
int cuDeviceGetName(char* name, int len, int) {
    snprintf(name, (size_t)len, "emulator");
    return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
    *value = attribute == COMPUTE_CAPABILITY_MAJOR ? 8 : 1;
    return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
    *context = &allocations;
    return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) {
    Guard guard(lock);
    if (current_context == &allocations) fail("the thread has not got its former context back");
    default_stream.run();
    if (!allocations.empty() || !pinned.empty()) fail("memory has not been freed");
    return 0;
}
int cuCtxSetCurrent(void* context) {
    current_context = context;
    return 0;
}
int cuCtxGetCurrent(void** context) {
    *context = current_context;
    return 0;
}

int cuModuleLoadData(void** module, const void* ptx) {
    check_context();
    if (!strstr((const char*)ptx, ".visible .entry expand_tables(")) fail("this is no PTX");
    *module = &default_stream;
    return 0;
}
int cuModuleUnload(void*) { return 0; }
int cuModuleGetFunction(void** function, void*, const char* name) {
    *function = strdup(name);
    return 0;
}
int cuFuncSetAttribute(void*, int attribute, int value) {
    if (attribute != MAX_DYNAMIC_SHARED_SIZE_BYTES || value > MAX_SHARED_BYTES) {
        fail("an attribute is not supported");
    }
    return 0;
}

int cuStreamCreate(void** stream, unsigned) {
    check_context();
    *stream = new Stream;
    return 0;
}
int cuStreamDestroy_v2(void* stream) {
    Guard guard(lock);
    of(stream).run();
    delete (Stream*)stream;
    return 0;
}
int cuStreamSynchronize(void* stream) {
    check_context();
    Guard guard(lock);
    of(stream).run();
    return 0;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
    check_context();
    Guard guard(lock);
    Stream* before = ((Event*)event)->stream;
    if (before == &of(stream)) fail("a stream waits for itself");
    if (before) of(stream).work.push_back([=] { before->run(); });
    return 0;
}
int cuEventCreate(void** event, unsigned) {
    check_context();
    *event = new Event;
    return 0;
}
int cuEventDestroy_v2(void* event) {
    delete (Event*)event;
    return 0;
}
int cuEventRecord(void* event, void* stream) {
    ((Event*)event)->stream = &of(stream);
    return 0;
}
int cuEventElapsedTime(float* ms, void*, void*) {
    *ms = 1;
    return 0;
}
int cuEventSynchronize(void* event) {
    Guard guard(lock);
    Stream* stream = ((Event*)event)->stream;
    if (stream) stream->run();
    return 0;
}

int cuMemAlloc_v2(u64* address, size_t len) {
    check_context();
    Guard guard(lock);
    if (len > memory_size() || allocated > memory_size() - len) return OUT_OF_MEMORY;
    void* bytes;
    if (len == 0 || posix_memalign(&bytes, 256, len)) fail("an allocation has no bytes");
    memset(bytes, 0xA5, len);
    allocations[(u64)bytes] = len;
    allocated += len;
    *address = (u64)bytes;
    return 0;
}
int cuMemFree_v2(u64 address) {
    check_context();
    Guard guard(lock);
    auto found = allocations.find(address);
    if (found == allocations.end()) fail("an address is freed that was not allocated");
    allocated -= found->second;
    allocations.erase(found);
    free((void*)address);
    return 0;
}
int cuMemHostAlloc(void** bytes, size_t len, unsigned) {
    check_context();
    Guard guard(lock);
    pinned_bytes += len;
    if (pinned_bytes > limit("ZSTN_EMULATED_PINNED_BYTES")) fail("too much memory is pinned");
    *bytes = malloc(len);
    pinned[*bytes] = len;
    return 0;
}
int cuMemFreeHost(void* bytes) {
    check_context();
    Guard guard(lock);
    auto found = pinned.find(bytes);
    if (found == pinned.end()) fail("memory is freed that was not pinned");
    pinned_bytes -= found->second;
    pinned.erase(found);
    free(bytes);
    return 0;
}
int cuMemcpyHtoDAsync_v2(u64 to, const void* from, size_t len, void* stream) {
    check_context();
    Guard guard(lock);
    check_range(to, len);
    of(stream).work.push_back([=] { memcpy((void*)to, from, len); });
    return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, u64 from, size_t len, void* stream) {
    check_context();
    Guard guard(lock);
    check_range(from, len);
    of(stream).work.push_back([=] { memcpy(to, (const void*)from, len); });
    return 0;
}
int cuMemcpyDtoH_v2(void* to, u64 from, size_t len) {
    check_context();
    Guard guard(lock);
    check_range(from, len);
    memcpy(to, (const void*)from, len);
    return 0;
}

int cuLaunchKernel(
    void* function, unsigned blocks, unsigned y, unsigned z, unsigned threads, unsigned thread_y,
    unsigned thread_z, unsigned shared_len, void* stream, void** arguments, void**
) {
    check_context();
    Guard guard(lock);
    std::string name((const char*)function);
    bool is_flat = y == 1 && z == 1 && thread_y == 1 && thread_z == 1;
    if (!is_flat || blocks == 0 || threads > MAX_THREADS || (int)shared_len > MAX_SHARED_BYTES) {
        fail("a launch has an invalid size");
    }
    Launch launch = *(const Launch*)arguments[0];
    const void* jobs = name == "expand_tables" ? nullptr : *(const void**)arguments[1];
    of(stream).work.push_back([=] {
        for (const void* buffer : {(const void*)launch.source, (const void*)launch.scratch,
                                   (const void*)launch.damage}) {
            check_range((u64)buffer, 1);
        }
        for (u32 k = 0; k < blocks; k++) {
            run_block(name, launch, jobs, Block{threads, false}, k, shared_len);
        }
    });
    return 0;
}
}
