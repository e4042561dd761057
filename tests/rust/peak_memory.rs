//! The peak memory of packing and unpacking is a few tensors, however long the file is,
//! and little memory per tensor.

use std::fmt::Write as _;
use std::path::Path;

use zstn::{Engine, Input, Job, PackOptions, Sink, UnpackOptions, pack, unpack};
use zstn_tests::allocator::{Counting, peak_bytes};
use zstn_tests::rng::Rng;
use zstn_tests::with_header;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Writes a checkpoint of `tensors` distinct tensors of `len_bytes` each.
fn checkpoint(path: &Path, tensors: usize, len_bytes: usize) {
    let pool = Rng(3).bf16_weights(len_bytes / 2);
    let mut header = String::from("{");
    let mut data = Vec::with_capacity(tensors * len_bytes);
    for number in 0..tensors {
        let (start, comma) = (data.len(), if number == 0 { "" } else { "," });
        let shift = number * 2 % len_bytes;
        data.extend_from_slice(&pool[shift..]);
        data.extend_from_slice(&pool[..shift]);
        data[start..start + 4].copy_from_slice(&(number as u64).to_le_bytes()[..4]);
        let (count, end) = (len_bytes / 2, data.len());
        let entry =
            format!(r#"{{"dtype":"BF16","shape":[{count}],"data_offsets":[{start},{end}]}}"#);
        write!(header, r#"{comma}"layers.{number}.weight":{entry}"#).unwrap();
    }
    header.push('}');
    std::fs::write(path, with_header(header, data)).unwrap();
}

/// Returns the peak memory of packing, of packing from a stream, and of unpacking such a
/// checkpoint, in bytes.
fn held(tensors: usize, len_bytes: usize) -> [usize; 3] {
    let folder = tempfile::tempdir().unwrap();
    let [original, packed, restored] = ["a", "b", "c"].map(|name| folder.path().join(name));
    checkpoint(&original, tensors, len_bytes);
    let job = Job::new().engine(&Engine::new(2).unwrap());
    let options = PackOptions::default();
    let (report, packing) = peak_bytes(|| pack(&job, &original, &packed, &options));
    assert_eq!(report.unwrap().tensors(), tensors);
    let stream = Input::reader("stream", std::fs::File::open(&original).unwrap());
    let sink = Sink::writer(std::io::sink());
    let (report, streaming) = peak_bytes(|| pack(&job, stream, sink, &options));
    assert_eq!(report.unwrap().tensors(), tensors);
    let (report, unpacking) =
        peak_bytes(|| unpack(&job, &packed, &restored, &UnpackOptions::default()));
    report.unwrap();
    assert!(std::fs::read(&original).unwrap() == std::fs::read(&restored).unwrap());
    [packing, streaming, unpacking]
}

/// Returns the peak memory in bytes of unpacking with this memory limit.
fn held_within(len_bytes: usize, memory_bytes: u64) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let [original, packed, restored] = ["a", "b", "c"].map(|name| folder.path().join(name));
    checkpoint(&original, 24, len_bytes);
    let job = Job::new().engine(&Engine::new(8).unwrap());
    pack(&job, &original, &packed, &PackOptions::default()).unwrap();
    let options = UnpackOptions::default();
    let job = job.memory_bytes(memory_bytes);
    let (report, most) = peak_bytes(|| unpack(&job, &packed, &restored, &options));
    report.unwrap();
    assert!(std::fs::read(&restored).unwrap() == std::fs::read(&original).unwrap());
    most
}

/// This is a single test, because the allocator counts the whole process.
#[test]
fn memory_grows_with_tensors_in_work_and_little_with_their_number() {
    const LARGE_BYTES: usize = 2 << 20;
    // Two threads process three of the 48 tensors at the same time, and each takes up to
    // three times its length.
    for most in held(48, LARGE_BYTES) {
        assert!(most < 24 << 20, "{most} bytes");
    }
    // Eight threads hold up to eight tensors, within the limit.
    let memory_bytes = 6 * LARGE_BYTES as u64;
    let most = held_within(LARGE_BYTES, memory_bytes);
    assert!(most as u64 <= memory_bytes, "{most} bytes");
    const SMALL_BYTES: usize = 1 << 10;
    let (few, many) = (held(12_000, SMALL_BYTES), held(24_000, SMALL_BYTES));
    // All operations hold the parsed header: unpacking compares statistics, which
    // requires dtypes and shapes.
    for (few, many) in few.into_iter().zip(many) {
        let each = many.saturating_sub(few) / 12_000;
        assert!(each < 1000, "{each} bytes for each tensor more");
    }
}
