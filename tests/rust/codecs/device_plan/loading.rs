//! The loader of `zstn-gpu` loads whole files into the memory of a device on the host.
//! The queues of this device do nothing before a caller waits for them, and the executor
//! of this folder decodes its plans.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use zstn::source::Source;
use zstn::{CancelToken, Input, Job, PackOptions, Reader};
use zstn_core::container::foreign::compressed_tensors::TensorSpec;
use zstn_core::dtype::Dtype;
use zstn_core::frame::plan::DevicePlan;
use zstn_core::pure::Pure;
use zstn_gpu::load::{LoadOptions, load};
use zstn_gpu::{Device, Error, Queue};
use zstn_tests::rng::Rng;
use zstn_tests::{cases, checkpoints, tier};

use super::executor::{Damage, execute};
use super::weights;

#[derive(Default)]
struct Host {
    /// Number of segments that the host has decoded.
    host_segments: Arc<AtomicUsize>,
}

type Memory = Arc<Mutex<Vec<u8>>>;

/// A queue whose copies happen when a caller waits for them, out of the buffer as it is
/// then.
struct HostQueue {
    buffer: Vec<u8>,
    copies: Vec<(Range<usize>, Memory, usize)>,
    host_segments: Arc<AtomicUsize>,
}

fn index(value: u64) -> usize {
    usize::try_from(value).expect("a position in memory")
}

impl Device for Host {
    type Memory = Memory;
    type Queue = HostQueue;

    fn allocate(&self, len_bytes: u64) -> zstn_gpu::Result<Memory> {
        Ok(Arc::new(Mutex::new(vec![0xAA; index(len_bytes)])))
    }

    fn queue(&self, buffer_bytes: usize) -> zstn_gpu::Result<HostQueue> {
        Ok(HostQueue {
            buffer: vec![0; buffer_bytes],
            copies: Vec::new(),
            host_segments: self.host_segments.clone(),
        })
    }
}

impl Queue for HostQueue {
    type Memory = Memory;

    fn buffer(&mut self) -> zstn_gpu::Result<&mut [u8]> {
        self.wait()?;
        Ok(&mut self.buffer)
    }

    fn copy(&mut self, part: Range<usize>, to: &Memory, at: u64) -> zstn_gpu::Result<()> {
        self.copies.push((part, to.clone(), index(at)));
        Ok(())
    }

    fn decode(
        &mut self,
        plan: &DevicePlan,
        host: &[Vec<u8>],
        source: &Memory,
        output: &Memory,
    ) -> zstn_gpu::Result<Option<zstn_gpu::Damage>> {
        self.wait()?;
        let lens = host.iter().map(|bytes| bytes.len() as u64);
        assert!(lens.eq(plan.host_segments().iter().map(|segment| segment.len)));
        self.host_segments.fetch_add(host.len(), Ordering::Relaxed);
        let source = source.lock().unwrap();
        // The lock of the output is not held, since queues work at the same time.
        let mut decoded = vec![0; index(plan.output_len_bytes())];
        let damage = match execute(&Pure, plan, &source, &mut decoded) {
            Ok(()) => None,
            Err((Damage::Segment(number), _)) => Some([u32::try_from(number).unwrap(), u32::MAX]),
            Err((Damage::Tensor(number), _)) => Some([u32::MAX, u32::try_from(number).unwrap()]),
        };
        let mut output = output.lock().unwrap();
        let joined = plan.tensors().iter().map(|tensor| {
            let len = tensor.elements * u64::from(tensor.item_bytes);
            tensor.output..tensor.output + len
        });
        let is_output = zstn_core::frame::plan::Space::Output as u32;
        let planes = plan
            .planes()
            .iter()
            .filter(|plane| plane.space == is_output);
        for range in joined.chain(planes.map(|plane| plane.at..plane.at + plane.len)) {
            let range = index(range.start)..index(range.end);
            output[range.clone()].copy_from_slice(&decoded[range]);
        }
        Ok(damage.and_then(zstn_gpu::Damage::of_report))
    }

    fn wait(&mut self) -> zstn_gpu::Result<()> {
        for (part, to, at) in self.copies.drain(..) {
            let bytes = &self.buffer[part];
            to.lock().unwrap()[at..at + bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }
}

pub fn options() -> LoadOptions {
    // Some tensors are longer than a buffer.
    LoadOptions::default().threads(3).buffer_bytes(48 << 10)
}

/// Loads a model and compares every tensor with the bytes that a reader returns. Returns
/// the number of tensors, and how many of them the CPU has decoded.
fn assert_loads(host: &Host, name: &str, reader: &Reader) -> [usize; 2] {
    let loaded = load(host, reader, &options()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let memory = loaded.memory.lock().unwrap();
    assert_eq!(loaded.tensors.len(), reader.tensors().len());
    for tensor in &loaded.tensors {
        let expected = reader.read(&tensor.name).expect("reads");
        assert_eq!(
            (tensor.dtype, &tensor.shape),
            (expected.dtype, &expected.shape)
        );
        let range = index(tensor.range.start)..index(tensor.range.end);
        assert!(memory[range] == expected.bytes, "{name}: {}", tensor.name);
    }
    [loaded.tensors.len(), loaded.by_cpu]
}

/// Returns a safetensors file with many small tensors, some long ones, and one whose
/// bytes repeat, which the CPU decodes.
pub fn model() -> Vec<u8> {
    let mut rng = Rng(11);
    let mut tensors = Vec::new();
    for (name, dtype, count) in [
        ("long", Dtype::Bf16, 200_003),
        ("half", Dtype::F16, 40_001),
        ("single", Dtype::F32, 30_001),
        ("eight", Dtype::F8E4M3, 20_001),
        ("empty", Dtype::Bf16, 0),
    ] {
        tensors.push((name.to_owned(), dtype, weights(&mut rng, dtype, count)));
    }
    let pattern = weights(&mut rng, Dtype::F8E4M3, 997);
    let repeated = pattern.iter().copied().cycle().take(60_000);
    tensors.push(("bytes".to_owned(), Dtype::U8, repeated.collect()));
    for number in 0..150 {
        let bytes = weights(&mut rng, Dtype::Bf16, 500 + 7 * number);
        tensors.push((format!("small{number}"), Dtype::Bf16, bytes));
    }
    let specs: Vec<_> = tensors
        .into_iter()
        .map(|(name, dtype, bytes)| {
            let shape = vec![8 * bytes.len() as u64 / dtype.bits()];
            (TensorSpec { name, dtype, shape }, bytes)
        })
        .collect();
    checkpoints::safetensors(specs.iter().map(|(spec, bytes)| (spec, &bytes[..])))
}

pub fn packed(original: &[u8], integrity: bool) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.zstn");
    let options = PackOptions::default().integrity(integrity);
    let input = Input::bytes("model.safetensors", original);
    zstn::pack(&Job::new(), input, &path, &options).expect("packs");
    std::fs::read(path).expect("a file")
}

pub fn open(bytes: &[u8]) -> zstn::Result<Reader> {
    Reader::open(Input::bytes("model", bytes))
}

#[test]
fn plain_and_packed_files_are_loaded() {
    let original = model();
    let host = Host::default();
    let plain = open(&original).expect("opens");
    assert_eq!(assert_loads(&host, "plain", &plain)[1], 0);
    assert_eq!(host.host_segments.load(Ordering::Relaxed), 0);
    for integrity in [true, false] {
        let reader = open(&packed(&original, integrity)).expect("opens");
        let [all, by_cpu] = assert_loads(&host, "packed", &reader);
        assert!((1..5).contains(&by_cpu), "{by_cpu} of {all}");
    }
    let mut tensors = 0;
    for case in cases::containers() {
        if let Ok(reader) = open(&case.packed()) {
            tensors += assert_loads(&host, &case.name, &reader)[0];
        }
    }
    assert!(tensors >= 100, "{tensors}");
    assert!(host.host_segments.load(Ordering::Relaxed) > 0);
}

#[test]
fn damaged_files_are_refused_as_the_reader_refuses_them() {
    let mut rng = Rng(5);
    let bytes = weights(&mut rng, Dtype::Bf16, 3_001);
    let specs = ["a", "b"].map(|name| TensorSpec {
        name: name.to_owned(),
        dtype: Dtype::Bf16,
        shape: vec![3_001],
    });
    let original = checkpoints::safetensors(specs.iter().map(|spec| (spec, &bytes[..])));
    let other = weights(&mut rng, Dtype::Bf16, 3_001);
    let original = [&original[..original.len() - other.len()], &other].concat();
    let (mut refused, mut accepted) = (0, 0);
    for integrity in [true, false] {
        let packed = packed(&original, integrity);
        for at in tier::stepped(0..packed.len(), 97) {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x24;
            let Ok(reader) = open(&damaged) else { continue };
            let refusals = reader.names().filter_map(|name| reader.read(name).err());
            let refusals: Vec<String> = refusals.map(|error| error.to_string()).collect();
            match load(&Host::default(), &reader, &options()) {
                Ok(_) => {
                    accepted += 1;
                    assert!(refusals.is_empty(), "byte {at}: {refusals:?}");
                    assert_loads(&Host::default(), "damaged", &reader);
                }
                Err(error) => {
                    refused += 1;
                    let error = error.to_string();
                    assert!(refusals.contains(&error), "byte {at}: {error} {refusals:?}");
                }
            }
        }
    }
    assert!(refused > 20 && accepted > 0, "{refused} {accepted}");
}

/// A source that fails, or cancels the work, at one of the reads.
struct Stopping {
    bytes: Vec<u8>,
    reads: AtomicUsize,
    stop: usize,
    token: Option<CancelToken>,
}

impl Source for Stopping {
    fn name(&self) -> &str {
        "stopping"
    }

    fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&self, range: Range<u64>) -> zstn::Result<Cow<'_, [u8]>> {
        if self.reads.fetch_add(1, Ordering::Relaxed) == self.stop {
            match &self.token {
                Some(token) => token.cancel(),
                None => {
                    let cut = std::io::ErrorKind::UnexpectedEof;
                    return Err(zstn::Error::io("read stopping", cut.into()));
                }
            }
        }
        Ok(self.bytes[index(range.start)..index(range.end)].into())
    }
}

#[test]
fn failed_reads_and_cancelled_work_end_with_their_error() {
    let original = model();
    for bytes in [packed(&original, true), original] {
        for (stop, is_cancelled) in [(20, false), (30, true), (90, false), (91, true)] {
            let token = CancelToken::new();
            let source = Stopping {
                bytes: bytes.clone(),
                reads: AtomicUsize::new(0),
                stop,
                token: is_cancelled.then(|| token.clone()),
            };
            let reader = Reader::open(Input::source(source)).expect("opens");
            let options = options().buffer_bytes(4096).cancel_token(&token);
            let error = load(&Host::default(), &reader, &options).expect_err("is stopped");
            let is_expected = match &error {
                Error::File(zstn::Error::Cancelled) => is_cancelled,
                Error::File(zstn::Error::Io { .. }) => !is_cancelled,
                _ => false,
            };
            assert!(is_expected, "{stop}: {error}");
        }
    }
}
