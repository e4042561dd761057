//! Times the stages of packing and reading: `cargo bench`. Throughput is in bytes
//! before encoding or after decoding, on one thread.
//!
//! `cargo bench -- Huffman` runs the stages with that word in their name.

use divan::Bencher;
use divan::counter::BytesCount;
use zstn_bench::Stage;

fn main() {
    divan::main();
}

fn bench(bencher: Bencher, stage: &Stage, tensor_bytes: usize) {
    let mut work = stage.prepare(tensor_bytes);
    bencher
        .counter(BytesCount::new(work.len_bytes()))
        .bench_local(|| work.run());
}

/// Uses planes that fit the cache, like the chunks that decoders join; the length is in
/// bytes.
#[divan::bench(args = zstn_bench::planes(), max_time = 0.5)]
fn planes(bencher: Bencher, stage: &Stage) {
    bench(bencher, stage, 256 << 10);
}

#[divan::bench(args = zstn_bench::structured(), max_time = 0.5)]
fn structured(bencher: Bencher, stage: &Stage) {
    bench(bencher, stage, 4 << 20);
}

#[divan::bench(args = zstn_bench::coders(), max_time = 1)]
fn coders(bencher: Bencher, stage: &Stage) {
    bench(bencher, stage, 4 << 20);
}

/// Times C zstd on the same planes.
#[divan::bench(args = zstn_bench::peers(), max_time = 1)]
fn peers(bencher: Bencher, stage: &Stage) {
    bench(bencher, stage, 4 << 20);
}

#[divan::bench(args = zstn_bench::frames(), max_time = 1)]
fn frames(bencher: Bencher, stage: &Stage) {
    bench(bencher, stage, 4 << 20);
}

/// Times frames that only zstn reads.
#[divan::bench(args = zstn_bench::extensions(), max_time = 1)]
fn extensions(bencher: Bencher, stage: &Stage) {
    bench(bencher, stage, 4 << 20);
}

#[divan::bench(args = zstn_bench::files(), max_time = 1)]
fn files(bencher: Bencher, stage: &Stage) {
    bench(bencher, stage, 4 << 20);
}
