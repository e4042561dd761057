// Runs the kernels on the host, for tests. It reads requests from the standard input,
// each of which holds the lists of a plan, the jobs and the buffers, and answers with
// the numbers of damaged records and the output.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "kernels.cu"

namespace {

// The start of a request; all lengths are in bytes. The parts follow in this order.
struct Request {
    u64 threads, is_reversed;
    // The length of the shared memory of kernels that decode streams.
    u64 stream_shared;
    // The length of the shared memory of the kernel that decodes differences.
    u64 difference_shared;
    u64 tensors, planes, segments, huffman_tables, rans_tables, lattices, lattice_groups;
    u64 differences, difference_codes, difference_tables, difference_blocks, digests;
    u64 segment_jobs, copy_jobs, rans_jobs, bfloat16_tiles, join_tiles;
    u64 lattice_tiles, sparse_tiles, sparse_sums, difference_jobs, xor_tiles;
    u64 digest_tiles, digest_sums;
    u64 source, scratch, output;
};

bool read_exact(void* place, size_t len) { return fread(place, 1, len, stdin) == len; }

// A buffer of exactly the given length, so that the address sanitizer finds accesses
// outside of it.
struct Buffer {
    u8* bytes;
    size_t len;
    Buffer(u64 length, u64 multiple) : len(length) {
        size_t allocated = (length + multiple - 1) / multiple * multiple;
        if (posix_memalign((void**)&bytes, 16, allocated ? allocated : 1)) abort();
    }
    ~Buffer() { free(bytes); }
    Buffer(const Buffer&) = delete;
};

std::unique_ptr<Buffer> receive(u64 len, u64 multiple) {
    auto buffer = std::make_unique<Buffer>(len, multiple);
    if (!read_exact(buffer->bytes, len)) exit(2);
    return buffer;
}

// Returns shared memory, which has no defined content at first.
std::vector<u8> shared_memory(size_t len) { return std::vector<u8>(len, 0xA5); }

// Calls `run` for every job of a list, with memory of exactly `shared_len` bytes.
template <class Job, class Run>
void each_job(const Buffer& jobs, size_t shared_len, Run run) {
    for (size_t k = 0; k < jobs.len / sizeof(Job); k++) {
        run(((const Job*)jobs.bytes)[k], shared_memory(shared_len).data());
    }
}

void answer(const Request& request) {
    auto tensors = receive(request.tensors, 1), planes = receive(request.planes, 1);
    auto segments = receive(request.segments, 1);
    auto huffman_tables = receive(request.huffman_tables, 1);
    auto rans_tables = receive(request.rans_tables, 1);
    auto lattices = receive(request.lattices, 1);
    auto lattice_groups = receive(request.lattice_groups, 1);
    auto differences = receive(request.differences, 1);
    auto difference_codes = receive(request.difference_codes, 1);
    auto difference_tables = receive(request.difference_tables, 1);
    auto difference_blocks = receive(request.difference_blocks, 1);
    auto digests = receive(request.digests, 1);
    auto segment_jobs = receive(request.segment_jobs, 1);
    auto copy_jobs = receive(request.copy_jobs, 1), rans_jobs = receive(request.rans_jobs, 1);
    auto bfloat16_tiles = receive(request.bfloat16_tiles, 1);
    auto join_tiles = receive(request.join_tiles, 1);
    auto lattice_tiles = receive(request.lattice_tiles, 1);
    auto sparse_tiles = receive(request.sparse_tiles, 1);
    auto sparse_sums = receive(request.sparse_sums, 1);
    auto difference_jobs = receive(request.difference_jobs, 1);
    auto xor_tiles = receive(request.xor_tiles, 1);
    auto digest_tiles = receive(request.digest_tiles, 1);
    auto digest_sums = receive(request.digest_sums, 1);
    auto source = receive(request.source, 16), scratch = receive(request.scratch, 16);
    auto output = receive(request.output, 1);
    const size_t codes = request.huffman_tables / sizeof(HuffmanTable);
    std::vector<DecodeTable> decode_tables(codes);
    u32 damage[4] = {NONE, NONE, NONE, NONE};
    const Launch launch = {
        source->bytes,
        scratch->bytes,
        output->bytes,
        (const JoinedTensor*)tensors->bytes,
        (const PlannedPlane*)planes->bytes,
        (const Segment*)segments->bytes,
        (const HuffmanTable*)huffman_tables->bytes,
        (const RansTable*)rans_tables->bytes,
        (const Lattice*)lattices->bytes,
        (const LatticeGroup*)lattice_groups->bytes,
        (const PlannedDifference*)differences->bytes,
        difference_codes->bytes,
        (const DifferenceTable*)difference_tables->bytes,
        (const DifferenceBlock*)difference_blocks->bytes,
        (const PlannedDigest*)digests->bytes,
        decode_tables.data(),
        damage,
    };
    const Block block = {(u32)request.threads, request.is_reversed != 0};
    each_job<XorTile>(*xor_tiles, 1, [&](const XorTile& tile, u8*) {
        save_base(block, launch, tile);
    });
    for (u32 k = 0; k < codes; k++) {
        expand_table(block, launch, k, shared_memory(sizeof(TableShared)).data());
    }
    const size_t stream_len = request.stream_shared;
    each_job<u32>(*segment_jobs, stream_len, [&](u32 number, u8* shared) {
        decode_segment(block, launch, number, shared);
    });
    each_job<u32>(*copy_jobs, 1, [&](u32 number, u8*) { copy_segment(block, launch, number); });
    each_job<RansChunks>(*rans_jobs, sizeof(RansShared), [&](const RansChunks& chunks, u8* shared) {
        decode_rans(block, launch, chunks, shared);
    });
    each_job<Tile>(*bfloat16_tiles, stream_len, [&](const Tile& tile, u8* shared) {
        join_bfloat16(block, launch, tile, shared);
    });
    each_job<Tile>(*join_tiles, 1, [&](const Tile& tile, u8*) { join_tile(block, launch, tile); });
    each_job<Tile>(*lattice_tiles, 1, [&](const Tile& tile, u8*) {
        join_lattice(block, launch, tile);
    });
    const size_t sparse_len = sizeof(SparseShared);
    each_job<SparseTile>(*sparse_tiles, sparse_len, [&](const SparseTile& tile, u8* shared) {
        count_sparse(block, launch, tile, shared);
    });
    each_job<SparseSum>(*sparse_sums, sizeof(SumShared), [&](const SparseSum& sum, u8* shared) {
        add_up_sparse(block, launch, sum, shared);
    });
    each_job<SparseTile>(*sparse_tiles, sparse_len, [&](const SparseTile& tile, u8* shared) {
        join_sparse(block, launch, tile, shared);
    });
    each_job<DifferenceBlocks>(
        *difference_jobs, request.difference_shared,
        [&](const DifferenceBlocks& blocks, u8* shared) {
            decode_differences(block, launch, blocks, shared);
        }
    );
    each_job<XorTile>(*xor_tiles, 1, [&](const XorTile& tile, u8*) {
        apply_xor(block, launch, tile);
    });
    const size_t digest_len = sizeof(DigestShared);
    each_job<DigestTile>(*digest_tiles, digest_len, [&](const DigestTile& tile, u8* shared) {
        hash_tile(block, launch, tile, shared);
    });
    each_job<DigestSum>(*digest_sums, 1, [&](const DigestSum& sum, u8*) {
        compare_digest(block, launch, sum);
    });
    fwrite(damage, 1, sizeof damage, stdout);
    fwrite(output->bytes, 1, output->len, stdout);
    fflush(stdout);
}

}  // namespace

int main() {
    Request request;
    while (read_exact(&request, sizeof request)) answer(request);
}
