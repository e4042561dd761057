//! The loader of `zstn-gpu` loads whole files into the memory of a device on the host.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use zstn::source::{Location, Source};
use zstn::{CancelToken, Input, Job, PackOptions, Reader};
use zstn_core::container::foreign::compressed_tensors::TensorSpec;
use zstn_core::dtype::Dtype;
use zstn_gpu::Error;
use zstn_gpu::load::{LoadOptions, Target, load, load_into};
use zstn_tests::fault_server::{ETAG, FaultServer, Served, right, right_parts, send};
use zstn_tests::rng::Rng;
use zstn_tests::{cases, checkpoints, tier};

use super::frames::{LATTICE_SHAPE, lattice_elements, weights};
use super::host_device::{Host, Memory, allocate, index};

/// The length of a buffer. Some tensors are longer.
pub const BUFFER_BYTES: usize = 48 << 10;

pub fn options() -> LoadOptions {
    let options = LoadOptions::default().threads(3);
    options.buffer_bytes(BUFFER_BYTES)
}

/// Loads a model and compares every tensor with the bytes that a reader returns. Returns
/// the number of tensors, and how many of them the CPU has decoded.
pub fn assert_loads(host: &Host, name: &str, reader: &Reader) -> [usize; 2] {
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
    [loaded.tensors.len(), loaded.report.by_cpu]
}

/// Returns a safetensors file with many small tensors, some long ones, one whose bytes
/// repeat, which the CPU decodes, and a lattice.
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
    let specs = tensors.into_iter().map(|(name, dtype, bytes)| {
        let shape = vec![8 * bytes.len() as u64 / dtype.bits()];
        (TensorSpec { name, dtype, shape }, bytes)
    });
    let lattice = TensorSpec {
        name: "lattice".to_owned(),
        dtype: Dtype::Bf16,
        shape: LATTICE_SHAPE.to_vec(),
    };
    let specs: Vec<_> = specs.chain([(lattice, lattice_elements())]).collect();
    checkpoints::safetensors(specs.iter().map(|(spec, bytes)| (spec, &bytes[..])))
}

pub fn packed(original: &[u8], integrity: bool) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.zstn");
    let options = PackOptions::default().integrity(integrity).extended(true);
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
    assert_eq!(host.counts.host_segments.load(Ordering::Relaxed), 0);
    for integrity in [true, false] {
        let reader = open(&packed(&original, integrity)).expect("opens");
        let [all, by_cpu] = assert_loads(&host, "packed", &reader);
        assert!((1..5).contains(&by_cpu), "{by_cpu} of {all}");
    }
    assert!(host.counts.lattices.load(Ordering::Relaxed) >= 2);
    let mut tensors = 0;
    for case in cases::containers() {
        if let Ok(reader) = open(&case.packed()) {
            tensors += assert_loads(&host, &case.name, &reader)[0];
        }
    }
    assert!(tensors >= 100, "{tensors}");
    assert!(host.counts.host_segments.load(Ordering::Relaxed) > 0);
}

/// Loads every tensor into memory of its own. Returns how many tensors the CPU has decoded.
pub fn load_separately(host: &Host, reader: &Reader) -> usize {
    let lens = reader.tensors().iter().map(|tensor| tensor.len_bytes());
    let memory: Vec<Memory> = lens
        .map(|len_bytes| allocate(len_bytes + 16, None).expect("memory"))
        .collect();
    let targets = reader.names().zip(&memory);
    let targets = targets.map(|(name, memory)| Target {
        name,
        memory,
        at: 16,
    });
    let report = load_into(host, reader, &targets.collect::<Vec<_>>(), &options());
    for (name, memory) in reader.names().zip(&memory) {
        let expected = reader.read(name).expect("reads").bytes;
        assert!(memory.lock().unwrap()[16..] == expected, "{name}");
    }
    report.expect("loads").by_cpu
}

#[test]
fn what_does_not_fit_into_the_device_is_decoded_by_the_cpu() {
    let reader = open(&packed(&model(), true)).expect("opens");
    let all = reader.tensors().len();
    let host = Host::default();
    let by_cpu = load_separately(&host, &reader);
    let plans = host.counts.plans.load(Ordering::Relaxed);
    assert!(by_cpu < 5 && plans > 3, "{by_cpu} {plans}");
    let is_long = |tensor: &&zstn_core::model::TensorInfo| {
        tensor.parts.iter().any(|part| part.len_bytes() > 48 << 10)
    };
    let long = reader.tensors().iter().filter(is_long).count();
    assert!(long >= 2, "{long}");
    for (longest, is_full, expected) in [
        (Some(48 << 10), false, long..=long + by_cpu),
        (Some(0), false, all..=all),
        (None, true, all..=all),
    ] {
        let host = Host {
            longest,
            is_full,
            ..Host::default()
        };
        let by_cpu = load_separately(&host, &reader);
        assert!(expected.contains(&by_cpu), "{longest:?}: {by_cpu}");
    }
    let no_memory = Host {
        longest: Some(0),
        ..Host::default()
    };
    let error = load(&no_memory, &reader, &options()).expect_err("has no place");
    assert!(matches!(error, Error::DeviceMemory { .. }), "{error}");
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

#[test]
fn memory_of_long_frames_does_not_grow_with_the_file() {
    let mut rng = Rng(17);
    let tensors = (0..9).map(|number| {
        let count = 40_000 + 1_000 * number;
        let spec = TensorSpec {
            name: format!("{number}"),
            dtype: Dtype::Bf16,
            shape: vec![count as u64],
        };
        (spec, weights(&mut rng, Dtype::Bf16, count))
    });
    let tensors: Vec<_> = tensors.collect();
    let tensors = tensors.iter().map(|(spec, bytes)| (spec, &bytes[..]));
    let reader = open(&packed(&checkpoints::safetensors(tensors), true)).expect("opens");
    let mut lens = reader
        .tensors()
        .iter()
        .map(|tensor| tensor.stored_len_bytes());
    // Every frame is longer than the memory of the one before it.
    assert!(lens.all(|len_bytes| len_bytes > BUFFER_BYTES as u64));
    let host = Host::default();
    assert_eq!(load_separately(&host, &reader), 0);
    let most = host.counts.most_memories.load(Ordering::Relaxed);
    // One for each thread.
    assert!((1..=3).contains(&most), "{most}");
}

#[test]
fn a_device_may_refuse_all_queues_but_one() {
    let reader = open(&packed(&model(), true)).expect("opens");
    let host = Host {
        most_queues: Some(1),
        ..Host::default()
    };
    assert_loads(&host, "one queue", &reader);
    assert_eq!(host.counts.queues.load(Ordering::SeqCst), 0);
    // A load that waits for another one can be cancelled.
    let token = CancelToken::new();
    let host = Host {
        most_queues: Some(0),
        cancelled: Some(token.clone()),
        ..Host::default()
    };
    let error = load(&host, &reader, &options().cancel_token(&token)).expect_err("no queue");
    assert!(
        matches!(error, Error::File(zstn::Error::Cancelled)),
        "{error}"
    );
}

/// Loads the tensors of a reader into one block of memory and compares them with those of
/// another reader.
fn assert_loads_as(name: &str, reader: &Reader, expected: &Reader) -> usize {
    let loaded = load(&Host::default(), reader, &options());
    let loaded = loaded.unwrap_or_else(|error| panic!("{name}: {error}"));
    let memory = loaded.memory.lock().unwrap();
    assert_eq!(loaded.tensors.len(), expected.tensors().len());
    for tensor in &loaded.tensors {
        let bytes = expected.read(&tensor.name).expect("reads").bytes;
        let range = index(tensor.range.start)..index(tensor.range.end);
        assert!(memory[range] == bytes, "{name}: {}", tensor.name);
    }
    loaded.report.by_cpu
}

#[test]
fn files_on_servers_are_read_once_by_few_requests() {
    let original = model();
    // Several tensors fit into a buffer.
    let most_requests = original.len() / BUFFER_BYTES + 20;
    let mut by_cpu = Vec::new();
    for (name, bytes, most_requests) in [
        ("plain", original.clone(), most_requests),
        ("packed", packed(&original, true), most_requests),
        ("gguf", cases::read("gguf", "dense-types.gguf"), 1),
    ] {
        let served = Served {
            bytes: bytes.clone(),
            other: Vec::new(),
        };
        let server = FaultServer::start(served, right);
        let reader = Reader::open(Location::url(&server.url)).expect("opens");
        let opening = server.log().len();
        by_cpu.push(assert_loads_as(
            name,
            &reader,
            &open(&bytes).expect("opens"),
        ));
        let requests = server.log().split_off(opening);
        assert!(
            requests.len() <= most_requests,
            "{name}: {}",
            requests.len()
        );
        let lens = requests
            .iter()
            .flat_map(|asked| asked.range.clone().map(|range| range.len()));
        let fetched: usize = lens.sum();
        assert!(
            fetched <= bytes.len(),
            "{name}: {fetched} of {}",
            bytes.len()
        );
    }
    assert!(
        by_cpu[0] == 0 && by_cpu[1] > 0 && by_cpu[2] > 1,
        "{by_cpu:?}"
    );
}

/// Serves a file with another validator in every answer, whose body `change` modifies.
fn replicas(bytes: &[u8], change: impl Fn(&mut Vec<u8>) + Send + Sync + 'static) -> FaultServer {
    let served = Served {
        bytes: bytes.to_vec(),
        other: Vec::new(),
    };
    FaultServer::start(served, move |asked, served, to| {
        let (head, mut body) = right_parts(asked, served);
        let validator = format!("ETag: \"{}\"", asked.number);
        let head = String::from_utf8_lossy(&head).replace(ETAG, &validator);
        change(&mut body);
        send(to, head.as_bytes(), &body)
    })
}

#[test]
fn bytes_of_replicas_are_compared_with_checksums() {
    let packed = packed(&model(), true);
    let is_damaged = Arc::new(AtomicBool::new(false));
    let damaging = is_damaged.clone();
    let server = replicas(&packed, move |body| {
        let middle = body.len() / 2;
        body[middle] ^= u8::from(damaging.load(Ordering::SeqCst));
    });
    let reader = Reader::open(Location::url(&server.url)).expect("opens");
    let expected = open(&packed).expect("opens");
    assert!(assert_loads_as("replicas", &reader, &expected) < 5);
    is_damaged.store(true, Ordering::SeqCst);
    let error = load(&Host::default(), &reader, &options()).expect_err("is damaged");
    let is_changed = matches!(error, Error::File(zstn::Error::Changed { .. }));
    assert!(is_changed, "{error}");
    // Plain files have no checksums.
    let server = replicas(&model(), |_| ());
    if let Ok(reader) = Reader::open(Location::url(&server.url)) {
        let error = load(&Host::default(), &reader, &options()).expect_err("may be changed");
        let is_changed = matches!(error, Error::File(zstn::Error::Changed { .. }));
        assert!(is_changed, "{error}");
    }
}
