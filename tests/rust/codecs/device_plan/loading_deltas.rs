//! Deltas are loaded into the memory of a device on the host: the tensors of the base first,
//! which the records then replace.

use std::sync::atomic::Ordering;

use zstn::{Input, Job, PackOptions, Reader};
use zstn_core::Rule;
use zstn_core::container::foreign::compressed_tensors::TensorSpec;
use zstn_core::dtype::Dtype;
use zstn_gpu::load::{coverage, load};
use zstn_tests::fault_server::{FaultServer, Served, right};
use zstn_tests::rng::Rng;
use zstn_tests::{cases, checkpoints, tier};

use super::host_device::Host;
use super::loading::{assert_loads, load_separately, open, options, packed};
use crate::difference::trained;
use crate::low_rank::Merge;

/// Returns safetensors files: a base, a model trained from it, and one trained from that.
/// Some tensors are longer than a buffer, some are equal in all files, and one has another
/// length in the base.
pub fn checkpoints_of_a_training() -> [Vec<u8>; 3] {
    let mut files: [Vec<(TensorSpec, Vec<u8>)>; 3] = Default::default();
    let mut rng = Rng(23);
    for (name, dtype, rows, columns) in [
        ("long", Dtype::Bf16, 400, 300),
        ("half", Dtype::F16, 70, 301),
        ("single", Dtype::F32, 90, 133),
        ("short", Dtype::Bf16, 1, 1),
        ("same", Dtype::Bf16, 300, 200),
        ("empty", Dtype::Bf16, 0, 3),
        ("bytes", Dtype::U8, 300, 7),
        ("other", Dtype::Bf16, 20, 30),
    ] {
        let count = usize::try_from(rows * columns).expect("small");
        let (mut first, mut second) = trained(&mut rng, dtype, count, 1e-3);
        if dtype == Dtype::U8 {
            (first, second) = (rng.bytes(count), rng.bytes(count));
        }
        // The lowest byte of every element changes.
        let width = usize::try_from(dtype.bits() / 8).expect("small");
        let mut third = second.clone();
        for byte in third.iter_mut().step_by(width) {
            *byte ^= rng.next_u64().to_le_bytes()[0] & 3;
        }
        if name == "same" {
            second = first.clone();
        }
        let third = if name == "same" { first.clone() } else { third };
        let mut shapes = [[rows, columns]; 3];
        if name == "other" {
            // Too few rows in common for a delta.
            first.truncate(first.len() / 10);
            shapes[0][0] /= 10;
        }
        for (number, bytes) in [first, second, third].into_iter().enumerate() {
            let shape = shapes[number].to_vec();
            let name = name.to_owned();
            files[number].push((TensorSpec { name, dtype, shape }, bytes));
        }
    }
    files.map(|tensors| {
        checkpoints::safetensors(tensors.iter().map(|(spec, bytes)| (spec, &bytes[..])))
    })
}

/// Packs the delta of a file from its bases: the last of them, its own base, and so on.
pub fn delta(original: &[u8], bases: &[&[u8]], extended: bool) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.z4dm");
    let options = PackOptions::default().extended(extended);
    let options = bases
        .iter()
        .fold(options, |options, base| options.base(input(base)));
    let input = Input::bytes("model.safetensors", original);
    zstn::pack(&Job::new(), input, &path, &options).expect("packs");
    std::fs::read(path).expect("a file")
}

fn input(bytes: &[u8]) -> Input {
    Input::bytes("base", bytes)
}

pub fn open_delta(delta: &[u8], base: Reader) -> zstn::Result<Reader> {
    let opened = Reader::open(Input::bytes("delta", delta))?;
    opened.with_base(base)
}

/// Returns the total length of the tensors of a model.
fn len_bytes(reader: &Reader) -> u64 {
    reader
        .tensors()
        .iter()
        .map(|tensor| tensor.len_bytes())
        .sum()
}

#[test]
fn deltas_are_restored_from_plain_and_packed_bases() {
    let [first, second, third] = checkpoints_of_a_training();
    for extended in [true, false] {
        let one = delta(&second, &[&first], extended);
        for base in [first.clone(), packed(&first, true)] {
            let reader = open_delta(&one, open(&base).expect("opens")).expect("opens");
            let host = Host::default();
            let [all, by_cpu] = assert_loads(&host, "delta", &reader);
            assert_eq!(by_cpu, 0, "of {all}");
            let restored = host.counts.restored.load(Ordering::Relaxed);
            assert!(restored >= 3, "{restored}");
            assert_eq!(load_separately(&Host::default(), &reader), 0);
            let covered = coverage(&reader).expect("reads");
            assert_eq!(covered.tensors, all);
            assert_eq!(covered.len_bytes, len_bytes(&reader));
            // The delta is the base of another one.
            let two = delta(&third, &[&one, &base], extended);
            let reader = open_delta(&two, reader).expect("opens");
            let host = Host::default();
            assert_eq!(assert_loads(&host, "chain", &reader)[1], 0);
            let both = host.counts.restored.load(Ordering::Relaxed);
            assert!(both >= restored + 3, "{both}");
        }
    }
}

#[test]
fn tensors_from_other_bytes_of_the_base_are_left_to_the_cpu() {
    let mut rng = Rng(5);
    let (first, second) = trained(&mut rng, Dtype::Bf16, 90 * 64, 1e-3);
    let file = |name: &str, rows: usize, bytes: &[u8]| {
        let (name, shape) = (name.to_owned(), vec![rows as u64, 64]);
        let dtype = Dtype::Bf16;
        let spec = TensorSpec { name, dtype, shape };
        checkpoints::safetensors([(&spec, &bytes[..rows * 128])])
    };
    let base = file("a", 80, &first);
    for (name, rows) in [("model.a", 80), ("a", 90), ("a", 70)] {
        let one = delta(&file(name, rows, &second), &[&base], true);
        let reader = open_delta(&one, open(&base).expect("opens")).expect("opens");
        let host = Host::default();
        assert_eq!(assert_loads(&host, name, &reader), [1, 1]);
        assert_eq!(host.counts.restored.load(Ordering::Relaxed), 0);
        assert_eq!(coverage(&reader).expect("reads").tensors, 0);
    }
}

/// The delta fits one shard of the base, and the index of the base assigns the tensor to
/// another shard, which contains more rows of it.
#[test]
fn a_tensor_of_another_length_in_the_base_is_refused_as_the_reader_refuses_it() {
    let mut rng = Rng(9);
    let (first, second) = trained(&mut rng, Dtype::Bf16, 90 * 64, 1e-3);
    let file = |tensors: &[(&str, &[u8])]| {
        let specs = tensors.iter().map(|&(name, bytes)| {
            let (name, shape) = (name.to_owned(), vec![bytes.len() as u64 / 128, 64]);
            let dtype = Dtype::Bf16;
            (TensorSpec { name, dtype, shape }, bytes)
        });
        let specs: Vec<_> = specs.collect();
        checkpoints::safetensors(specs.iter().map(|(spec, bytes)| (spec, *bytes)))
    };
    let [fitting, longer] = [
        file(&[("a", &first[..80 * 128]), ("b", &first[..128])]),
        file(&[("a", &first)]),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("is written");
        path
    };
    write("fitting.safetensors", &fitting);
    write("longer.safetensors", &longer);
    let index = r#"{"weight_map":{"a":"longer.safetensors","b":"fitting.safetensors"}}"#;
    let index = write("model.safetensors.index.json", index.as_bytes());
    for bytes in [&second[..80 * 128], &first[..80 * 128]] {
        let one = delta(&file(&[("a", bytes)]), &[&fitting], true);
        let base = Reader::open(index.as_path()).expect("opens");
        let reader = open_delta(&one, base).expect("one shard fits");
        let expected = reader.read("a").expect_err("has another length");
        let error = load(&Host::default(), &reader, &options()).expect_err("is refused");
        assert_eq!(error.to_string(), expected.to_string());
        assert_eq!(coverage(&reader).expect("reads").tensors, 0);
    }
}

/// Deltas of z4ai have no digests of the restored tensors.
#[test]
fn deltas_without_digests_are_left_to_the_cpu() {
    let mut of_bases = 0;
    for case in cases::deltas("zstn", "z4dm") {
        let [base, one] = ["base", "container"].map(|part| cases::named("zstn", &case[part]));
        let (Ok(base), Ok(alone)) = (open(&base), open(&one)) else {
            continue;
        };
        if alone.model().files()[0].has_tensor_digests() {
            continue;
        }
        let reader = alone.with_base(base).expect("fits");
        let host = Host::default();
        assert_loads(&host, "z4ai", &reader);
        assert_eq!(host.counts.restored.load(Ordering::Relaxed), 0);
        let tensors = reader.tensors().iter();
        let of_base = tensors.filter(|tensor| tensor.base.is_some() && tensor.len_bytes() > 0);
        let of_base = of_base.count();
        let covered = coverage(&reader).expect("reads").tensors;
        assert!(covered + of_base <= reader.tensors().len(), "{covered}");
        of_bases += of_base;
    }
    assert!(of_bases > 20, "{of_bases}");
}

#[test]
fn low_rank_records_are_decoded_by_the_cpu_and_fetched_once() {
    let merge = Merge::new(Dtype::Bf16, [400, 500], 4, 0.02, 3);
    let [first, second] = [&merge.base, &merge.current].map(|bytes| {
        let (name, shape) = ("a".to_owned(), merge.shape.to_vec());
        let dtype = Dtype::Bf16;
        checkpoints::safetensors([(&TensorSpec { name, dtype, shape }, &bytes[..])])
    });
    let served = Served {
        bytes: delta(&second, &[&first], true),
        other: Vec::new(),
    };
    let server = FaultServer::start(served, right);
    let reader = Reader::open(zstn::source::Location::url(&server.url)).expect("opens");
    let reader = reader.with_base(open(&first).expect("opens"));
    let reader = reader.expect("fits");
    assert_eq!(coverage(&reader).expect("reads").tensors, 0);
    let before = server.log().len();
    let loaded = load(&Host::default(), &reader, &options()).expect("loads");
    assert_eq!(loaded.report.by_cpu, 1);
    assert!(loaded.memory.lock().unwrap()[..merge.current.len()] == merge.current);
    let requests = server.log().split_off(before);
    let ranges = requests.iter().filter_map(|asked| asked.range.clone());
    let fetched: usize = ranges.map(|range| range.len()).sum();
    let part = &reader.find("a").expect("a tensor").parts[0];
    assert_eq!(fetched as u64, part.len_bytes());
}

#[test]
fn deltas_on_servers_are_restored() {
    let [first, second, _] = checkpoints_of_a_training();
    let one = delta(&second, &[&first], true);
    let [base, record] = [packed(&first, true), one].map(|bytes| {
        let served = Served {
            bytes,
            other: Vec::new(),
        };
        FaultServer::start(served, right)
    });
    let open = |server: &FaultServer| Reader::open(zstn::source::Location::url(&server.url));
    let reader = open(&record).expect("opens");
    let reader = reader.with_base(open(&base).expect("opens")).expect("fits");
    assert_eq!(assert_loads(&Host::default(), "served", &reader)[1], 0);
}

#[test]
fn what_does_not_fit_into_the_device_is_restored_by_the_cpu() {
    let [first, second, _] = checkpoints_of_a_training();
    let one = delta(&second, &[&first], true);
    let reader = open_delta(&one, open(&first).expect("opens")).expect("opens");
    for longest in [Some(0), Some(20_000)] {
        let host = Host {
            longest,
            ..Host::default()
        };
        let by_cpu = load_separately(&host, &reader);
        assert!((1..=reader.tensors().len()).contains(&by_cpu), "{by_cpu}");
    }
    let alone = open(&one).expect("opens");
    let error = load(&Host::default(), &alone, &options()).expect_err("has no base");
    assert!(error.to_string().contains("base"), "{error}");
    let covered = coverage(&alone).expect("reads");
    assert!(
        (1..alone.tensors().len()).contains(&covered.tensors),
        "{covered:?}"
    );
}

/// The base has the names, dtypes and lengths that the delta states, and one other byte.
#[test]
fn another_base_is_refused_as_the_reader_refuses_it() {
    let [first, second, _] = checkpoints_of_a_training();
    for extended in [true, false] {
        let one = delta(&second, &[&first], extended);
        let places = open(&first).expect("opens");
        for name in ["long", "half", "single", "same"] {
            let part = &places.find(name).expect("a tensor").parts[0];
            let mut other = first.clone();
            other[usize::try_from(part.stored.end - 1).expect("small")] ^= 1;
            for base in [other.clone(), packed(&other, true)] {
                let reader = open_delta(&one, open(&base).expect("opens")).expect("opens");
                let expected = reader.read(name).expect_err("another base");
                let error = load(&Host::default(), &reader, &options()).expect_err(name);
                assert_eq!(error.to_string(), expected.to_string(), "{name}");
                let zstn_gpu::Error::File(zstn::Error::Format { source, .. }) = error else {
                    panic!("{name}: {error}");
                };
                let rules = [Some(Rule::DeltaReference), Some(Rule::DeltaTensor)];
                assert!(rules.contains(&source.rule()), "{name}: {source}");
            }
        }
    }
}

#[test]
fn damaged_deltas_are_refused_as_the_reader_refuses_them() {
    let [first, second, _] = checkpoints_of_a_training();
    let undamaged = open(&second).expect("opens");
    let (mut refused, mut accepted) = (0, 0);
    for extended in [true, false] {
        let one = delta(&second, &[&first], extended);
        // Testing every byte would take two hours.
        for at in (0..one.len()).step_by(tier::count(1_009, 101)) {
            let mut damaged = one.clone();
            damaged[at] ^= 0x24;
            let reader = open_delta(&damaged, open(&first).expect("opens"));
            let Ok(reader) = reader else { continue };
            let refusals = reader.names().filter_map(|name| reader.read(name).err());
            let refusals: Vec<String> = refusals.map(|error| error.to_string()).collect();
            match load(&Host::default(), &reader, &options()) {
                Ok(_) if refusals.is_empty() => {
                    accepted += 1;
                    assert_loads(&Host::default(), "damaged", &reader);
                }
                // The digest of the base in a record is not compared.
                Ok(loaded) => {
                    let is_digest = |refusal: &String| refusal.contains("other bytes than this");
                    assert!(refusals.iter().all(is_digest), "byte {at}: {refusals:?}");
                    let memory = loaded.memory.lock().unwrap();
                    for tensor in &loaded.tensors {
                        let expected = undamaged.read(&tensor.name).expect("reads").bytes;
                        let at = usize::try_from(tensor.range.start).expect("small");
                        assert!(
                            memory[at..at + expected.len()] == expected,
                            "{}",
                            tensor.name
                        );
                    }
                }
                Err(error) => {
                    refused += 1;
                    let error = error.to_string();
                    assert!(refusals.contains(&error), "byte {at}: {error} {refusals:?}");
                }
            }
        }
    }
    assert!(refused > 100, "{refused} {accepted}");
}
