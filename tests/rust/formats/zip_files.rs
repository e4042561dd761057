//! NPZ and PyTorch files: they decode to the values of the libraries that wrote them,
//! damaged ones are refused or give the same values, and no pickle is executed.

use serde::Deserialize;
use serde_json::{Map, Value};
use zstn_core::bytes::part;
use zstn_core::catalog::{FileCatalog, FileKind, FileOpener, recognise};
use zstn_core::engine::Engine;
use zstn_core::model::{Model, ModelBuilder};
use zstn_core::pure::Pure;
use zstn_core::{Result, Rule};
use zstn_tests::archives::{self, Archive, StoredTensor};
use zstn_tests::cases::{self, Refusal, text};
use zstn_tests::foreign::open_in_trips;
use zstn_tests::sha256;

const FOLDERS: [(&str, FileKind); 2] = [("npz", FileKind::Npz), ("pytorch", FileKind::PyTorch)];

#[derive(Deserialize)]
struct Vector {
    file: String,
    tensors: Vec<Tensor>,
    /// The names of tensors that the file has and that cannot be read.
    unread: Vec<String>,
    /// Some of the entries of the metadata.
    #[serde(default)]
    metadata: Map<String, Value>,
}

#[derive(Deserialize)]
struct Tensor {
    name: String,
    dtype: String,
    shape: Vec<u64>,
    /// The place of the tensor, if its values are a range of the file.
    offset: Option<u64>,
    length: Option<u64>,
    /// SHA-256 of the values, little-endian and row-major.
    values_sha256: String,
}

fn vectors() -> Vec<(FileKind, Vector, Vec<u8>)> {
    let mut all = Vec::new();
    for (folder, kind) in FOLDERS {
        for entry in cases::entries(folder, "files") {
            let vector: Vector = serde_json::from_value(entry).expect("an entry");
            let file = cases::read(folder, &vector.file);
            all.push((kind, vector, file));
        }
    }
    all
}

fn model(file: &[u8]) -> Result<Model> {
    let (catalog, _) = open_in_trips(file)?;
    ModelBuilder::new([catalog].into(), None, None)?.finish(&Pure)
}

/// Decodes all tensors. Fails if the file has tensors that cannot be read.
fn read_all(engine: &impl Engine, file: &[u8]) -> Result<Vec<Vec<u8>>> {
    let model = model(file)?;
    if let Some((_, error)) = model.refused().next() {
        return Err(error.clone());
    }
    let catalog = &model.files()[0];
    let numbers = 0..catalog.tensors().len();
    numbers
        .map(|number| decode(engine, catalog, number, file))
        .collect()
}

fn decode(
    engine: &impl Engine,
    catalog: &FileCatalog,
    number: usize,
    file: &[u8],
) -> Result<Vec<u8>> {
    let tensor = &catalog.tensors()[number];
    let stored = part(file, tensor.stored.clone());
    let values = catalog.decode(engine, number, stored)?.into_owned();
    assert_eq!(values.len() as u64, tensor.len_bytes());
    Ok(values)
}

#[test]
fn vectors_decode_to_their_values() {
    assert!(vectors().len() >= 40);
    let mut plans = 0;
    for (kind, vector, file) in vectors() {
        let name = &vector.file;
        let model = model(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        let catalog = &model.files()[0];
        assert_eq!(catalog.kind(), kind, "{name}");
        let listed: Vec<_> = catalog.tensors().iter().map(|t| &t.name).collect();
        // NumPy stores bfloat16 as bytes without a dtype, which are listed as such.
        let bytes = vector.unread.iter().filter(|name| *name == "bf");
        let told: Vec<_> = vector.tensors.iter().map(|t| &t.name).collect();
        assert_eq!(
            listed.len(),
            told.len() + bytes.count(),
            "{name}: {listed:?}"
        );
        for told in &vector.tensors {
            let place = format!("{name}/{}", told.name);
            let number = catalog.find(&told.name).expect(&place);
            let tensor = &catalog.tensors()[number];
            assert_eq!(tensor.dtype.name(), told.dtype, "{place}");
            assert_eq!(tensor.shape, told.shape, "{place}");
            if let Some(offset) = told.offset {
                assert_eq!(tensor.stored.start, offset, "{place}");
                assert_eq!(Some(tensor.stored_len_bytes()), told.length, "{place}");
            }
            let values = decode(&Pure, catalog, number, &file).expect(&place);
            assert_eq!(sha256(&values), told.values_sha256, "{place}");
            let len = values.len() as u64;
            let span = len / 4..len - len / 4;
            if let Some(plan) = catalog.plan(number, span.clone(), None).expect("inside") {
                let ranges = plan.ranges().iter();
                let fetched: Vec<_> = ranges.map(|range| part(&file, range.clone())).collect();
                let decoded = plan.decode(&Pure, &fetched, None).expect(&place);
                assert!(decoded == part(&values, span), "{place}");
                plans += 1;
            }
        }
        for unread in vector.unread.iter().filter(|name| *name != "bf") {
            let error = model.find(unread).expect_err(unread);
            assert_ne!(error.kind(), zstn_core::ErrorKind::InvalidInput, "{name}");
        }
        for (key, value) in &vector.metadata {
            assert_eq!(catalog.metadata().get(key), Some(&text(value)), "{key}");
        }
    }
    assert!(plans > 60, "{plans} tensors are read by ranges");
}

#[test]
fn malformed_files_are_refused_for_their_rule() {
    for folder in ["npz-bad", "pytorch-bad"] {
        let entries = cases::malformed(folder);
        assert!(entries.len() >= 15);
        for entry in entries {
            let name = text(&entry["file"]);
            let file = cases::named(folder, &entry);
            let refusal = Refusal::of_opened(&entry);
            refusal.check(&name, read_all(&Pure, &file));
        }
    }
}

/// PyTorch saves the result of `conj()`, and of `conj().imag`, as the elements before it.
#[test]
fn tensors_that_have_yet_to_be_conjugated_or_negated_are_refused() {
    let pickle = archives::state_dict(&[("a".into(), "0".into(), 2)]);
    let end = b"collections\nOrderedDict\n)RtR";
    let at = pickle.windows(end.len()).position(|part| part == end);
    let (front, back) = pickle.split_at(at.expect("the end of a call") + end.len() - 2);
    for (mark, value, is_read) in [
        ("conj", 0x88, false),
        ("neg", 0x88, false),
        ("neg", 0x89, true),
        ("other", 0x88, true),
    ] {
        let marks = [&b"}"[..], &archives::text(mark), &[value], b"s"].concat();
        let pickle = [front, &marks, back].concat();
        let archive = Archive::default().member("a/data.pkl", &pickle);
        let file = archive.member("a/data/0", &[1; 8]).finish();
        match read_all(&Pure, &file) {
            Ok(values) => assert!(is_read && values == [[1; 8]], "{mark}"),
            Err(error) => {
                assert!(!is_read && error.to_string().contains(mark), "{error}");
                assert_eq!(error.kind(), zstn_core::ErrorKind::Unsupported);
            }
        }
    }
}

#[test]
fn tensors_of_one_storage_are_aliases() {
    let aliases = |name: &str| {
        let file = cases::read("pytorch", name);
        let (catalog, _) = open_in_trips(&file).expect(name);
        let tensors = catalog.tensors().iter();
        tensors.map(|t| t.alias_of).collect::<Vec<_>>()
    };
    assert_eq!(aliases("same-object-twice.pt"), [None, Some(0)]);
    assert_eq!(aliases("shared-storage.pt"), [None, None, None]);
}

/// Every file that calls something is read as any other: calls become text.
#[test]
fn calls_are_never_made() {
    let marker = std::env::temp_dir().join(format!("zstn-pickle-{}", std::process::id()));
    let command = format!("touch {}", marker.display());
    let call = |module: &str| {
        let global = format!("c{module}\nsystem\n(");
        [global.as_bytes(), &archives::text(&command), b"tR"].concat()
    };
    for module in ["os", "posix", "nt", "subprocess"] {
        let only_call = [b"\x80\x02", &call(module)[..], b"."].concat();
        let archive = |pickle: &[u8]| Archive::default().member("a/data.pkl", pickle).finish();
        let error = open_in_trips(&archive(&only_call)).expect_err("no tensors");
        assert_eq!(error.rule(), Some(Rule::PyTorchPickle));
        let named = [b"\x80\x02}", &archives::text("x")[..], &call(module), b"s."].concat();
        let error = open_in_trips(&archive(&named)).expect_err("no tensors");
        assert!(error.to_string().contains(&format!("`{module}.system`")));
        assert!(!marker.exists(), "the pickle was executed");
    }
    let file = cases::read("pytorch", "dangerous-value-beside-tensor.pt");
    let (catalog, _) = open_in_trips(&file).expect("a vector");
    let shown: Vec<_> = catalog.metadata().values().collect();
    assert!(
        shown.iter().any(|text| text.starts_with("posix.system(")),
        "{shown:?}"
    );
}

#[test]
fn damaged_files_are_refused_or_keep_their_lengths() {
    let files = [
        ("npz", "other-members.npz"),
        ("npz", "deflated.npz"),
        ("pytorch", "list.pt"),
        ("pytorch", "deflated.pt"),
        ("pytorch", "strided.pt"),
        ("pytorch", "calls.pt"),
        ("pytorch", "protocol-0.pt"),
        ("pytorch", "zip64-directory.pt"),
        ("pytorch", "legacy.bin"),
        ("pytorch", "legacy-views.pth"),
    ];
    for (folder, name) in files {
        let mut file = cases::read(folder, name);
        for end in 0..file.len() {
            assert!(read_all(&Pure, &file[..end]).is_err(), "{name}: {end}");
        }
        let mut refused = 0;
        for at in 0..file.len() {
            for flip in [1, 0x80, 0xff] {
                file[at] ^= flip;
                // The length of every decoded tensor is compared with its shape.
                refused += usize::from(read_all(&Pure, &file).is_err());
                file[at] ^= flip;
            }
        }
        assert!(refused > file.len(), "{name}: {refused} refusals");
    }
}

/// A deflated storage is inflated for each of its tensors.
#[test]
fn a_deflated_storage_of_many_tensors_is_short() {
    let short = 4 * 1024;
    let long = (1 << 30) / 64;
    for (count, len_bytes, is_read) in [(300, short, true), (65, long, false)] {
        let names: Vec<_> = (0..count).map(|number| format!("t{number}")).collect();
        let tensors = names.iter().map(|name| StoredTensor {
            name,
            class: "Float",
            key: "0",
            storage_len: len_bytes / 4,
            offset: 1,
            shape: &[1000],
            strides: &[1],
        });
        let pickle = archives::pickle(&tensors.collect::<Vec<_>>());
        let archive = Archive::default().member("m/data.pkl", &pickle);
        let file = archive.deflated("m/data/0", &vec![0; len_bytes]).finish();
        match open_in_trips(&file) {
            Ok((catalog, _)) => {
                assert!(is_read);
                assert_eq!(catalog.tensors().len(), count);
                assert_eq!(catalog.unpacked_len_bytes(7), len_bytes as u64);
            }
            Err(error) => {
                assert!(!is_read, "{error}");
                assert_eq!(error.kind(), zstn_core::ErrorKind::Limit, "{error}");
            }
        }
        if len_bytes == short {
            let read = read_all(&Pure, &file).expect("a short storage");
            assert!(read.iter().all(|read| *read == [0; 4000]));
        }
    }
}

/// PyTorch writes a checksum of 0 if it is told to compute none.
#[test]
fn a_checksum_of_zero_is_not_compared() {
    let values: Vec<u8> = (0..8).collect();
    let pickle = archives::state_dict(&[("a".into(), "0".into(), 2)]);
    let archive = Archive::default().member("m/data.pkl", &pickle);
    let mut file = archive.member("m/data/0", &values).finish();
    for (signature, offset) in [(b"PK\x03\x04", 14), (b"PK\x01\x02", 16)] {
        for at in 0..file.len() - 20 {
            if file[at..].starts_with(signature) {
                file[at + offset..at + offset + 4].fill(0);
            }
        }
    }
    assert_eq!(read_all(&Pure, &file).expect("no checksums"), [values]);
}

#[test]
fn a_header_with_the_length_of_a_magic_number_is_of_safetensors() {
    let kind = |head: &[u8]| recognise(head, 1 << 30).expect("a known format");
    assert_eq!(kind(b"PK\x03\x04\0\0\0\0{\"a\":{"), FileKind::Safetensors);
    assert_eq!(kind(b"PK\x03\x04\0\0\0\0\x08\0\0\0"), FileKind::Npz);
}

#[test]
fn a_tensor_with_a_long_name_is_refused_alone() {
    let names = ["a".into(), "b".repeat(70_000)];
    let pickle = archives::state_dict(&names.map(|name| (name, "0".into(), 2)));
    let archive = Archive::default().member("m/data.pkl", &pickle);
    let file = archive.member("m/data/0", &[1; 8]).finish();
    let model = model(&file).expect("a tensor can be read");
    assert_eq!(model.files()[0].tensors().len(), 1);
    let (name, error) = model.refused().next().expect("the other one");
    assert!(name.starts_with("bbb") && name.len() < 200, "{name}");
    assert_eq!(error.kind(), zstn_core::ErrorKind::Limit, "{error}");
}

#[test]
fn a_damaged_member_refuses_its_tensor_alone() {
    let tensors = ["a", "b"].map(|name| (name.into(), name.into(), 2));
    let archive = Archive::default().member("m/data.pkl", &archives::state_dict(&tensors));
    let archive = archive
        .member("m/data/a", &[1; 8])
        .member("m/data/b", &[2; 8]);
    let file = archive.finish();
    let at = file.windows(8).position(|part| part == b"m/data/a");
    let mut damaged = file;
    damaged[at.expect("the first member")] ^= 1;
    let model = model(&damaged).expect("the other tensor can be read");
    assert_eq!(model.files()[0].tensors().len(), 1);
    let (name, error) = model.refused().next().expect("the damaged one");
    assert_eq!((name, error.rule()), ("a", Some(Rule::ZipMember)));
}

#[test]
fn a_checkpoint_may_have_members_of_other_formats() {
    let pickle = archives::state_dict(&[("a".into(), "0".into(), 2)]);
    let archive = Archive::default().member("metadata.json", b"{}");
    let archive = archive.member("model.weights.h5", b"HDF");
    let archive = archive.member("m/data.pkl", &pickle);
    let file = archive.member("m/data/0", &[1; 8]).finish();
    assert_eq!(read_all(&Pure, &file).expect("a checkpoint"), [[1; 8]]);
}

#[test]
fn bytes_between_a_pickle_and_the_next_member_are_not_requested() {
    let pickle = archives::state_dict(&[("a".into(), "0".into(), 2)]);
    let start = Archive::default().member("m/data.pkl", &pickle);
    let file = start.gap(1 << 20).member("m/data/0", &[1; 8]).finish();
    let len = file.len() as u64;
    let head = part(&file, 0..FileOpener::head_len_bytes(len)).to_vec();
    let mut opening = FileOpener::new(len, head).expect("an archive");
    let mut requested = 0;
    loop {
        let needs = opening.needs().expect("an archive");
        if needs.is_empty() {
            break;
        }
        for range in needs {
            requested += range.end - range.start;
            let bytes = part(&file, range.clone());
            opening.supply(range.start, bytes).expect("was requested");
        }
    }
    assert!(requested < 512 << 10, "{requested} bytes");
    let catalog = opening.finish(&Pure).expect("a checkpoint");
    assert_eq!(catalog.tensors().len(), 1);
}

/// Returns 160 kB of values, so that neither of two storages is in the first or last bytes
/// of the file.
fn long_values() -> Vec<u8> {
    let values = (0..40_000u32).map(|number| number as f32);
    values.flat_map(f32::to_le_bytes).collect()
}

/// Returns the pickle of two tensors with such values in the storages `a` and `b`.
fn pickle_of_two() -> Vec<u8> {
    archives::state_dict(&["a", "b"].map(|name| (name.into(), name.into(), 40_000)))
}

/// Opens a file and returns the number of round trips; fails unless both tensors have their
/// values.
fn trips_to_two(file: &[u8]) -> usize {
    let (catalog, trips) = open_in_trips(file).expect("an archive");
    assert_eq!(catalog.tensors().len(), 2);
    for number in 0..2 {
        let values = decode(&Pure, &catalog, number, file).expect("values");
        assert!(values == long_values());
    }
    trips
}

#[test]
fn places_follow_from_the_directory_if_it_is_that_of_pytorch() {
    let (pickle, values) = (pickle_of_two(), long_values());
    // PyTorch can be told to align storages to pages.
    for alignment in [64, 128, 4096, 65_536] {
        let start = Archive::aligning(alignment).aligned("m/data.pkl", &pickle);
        let file = start
            .aligned("m/data/a", &values)
            .aligned("m/data/b", &values)
            .finish();
        let (catalog, _) = open_in_trips(&file).expect("an archive");
        let starts = catalog.tensors().iter();
        let mut starts = starts.map(|tensor| tensor.stored.end - tensor.len_bytes());
        assert!(starts.all(|start| start % alignment as u64 == 0));
        // The local header of the second storage is fetched together with its values.
        let last = &catalog.tensors()[1];
        assert!(last.stored_len_bytes() > last.len_bytes());
        // The head, then the end of the file.
        assert_eq!(trips_to_two(&file), 2, "{alignment}");
    }
}

#[test]
fn places_follow_from_the_directory_if_members_have_no_other_bytes() {
    let (pickle, values) = (pickle_of_two(), long_values());
    let start = Archive::default().member("m/data.pkl", &pickle);
    let first = start.member("m/data/a", &values);
    let file = first.member("m/data/b", &values).finish();
    assert_eq!(trips_to_two(&file), 2);
}

/// Local headers that were not fetched to list the tensors are compared when the tensors
/// are read.
#[test]
fn local_headers_are_compared_with_the_values() {
    let (pickle, values) = (pickle_of_two(), long_values());
    let start = || Archive::default();
    let plain = start()
        .member("m/data.pkl", &pickle)
        .member("m/data/a", &values)
        .member("m/data/b", &values);
    let aligned = start()
        .aligned("m/data.pkl", &pickle)
        .aligned("m/data/a", &values)
        .aligned("m/data/b", &values);
    for file in [plain.finish(), aligned.finish()] {
        let at = file.windows(8).position(|part| part == b"m/data/b");
        let at = at.expect("the second storage");
        // The name, the method, and the length of the extra fields.
        for changed in [at, at - 30 + 8, at - 2] {
            let mut damaged = file.clone();
            damaged[changed] ^= 1;
            let (catalog, _) = open_in_trips(&damaged).expect("the directory is intact");
            assert!(decode(&Pure, &catalog, 0, &damaged).expect("values") == values);
            let error = decode(&Pure, &catalog, 1, &damaged).expect_err("a local header");
            assert_eq!(error.rule(), Some(Rule::ZipMember), "{error}");
            assert_eq!(error.offset(), Some(at as u64 - 30), "{error}");
            // Rows are read without it.
            let plan = catalog.plan(1, 4..12, None).expect("inside");
            let plan = plan.expect("rows are a range of the file");
            let [range] = plan.ranges() else {
                panic!("{:?}", plan.ranges());
            };
            assert!(part(&damaged, range.clone()) == &values[4..12]);
        }
    }
}

/// Further bytes after the data, or a pickle with another layout, are signs of another
/// writer, whose extra fields are not known without the local headers.
#[test]
fn local_headers_are_fetched_if_places_do_not_follow_from_the_directory() {
    let (pickle, values) = (pickle_of_two(), long_values());
    let start = || Archive::default().member("m/data.pkl", &pickle);
    let gaps = start()
        .member("m/data/a", &values)
        .gap(16)
        .member("m/data/b", &values)
        .gap(16);
    assert_eq!(trips_to_two(&gaps.finish()), 3);
    let mixed = start()
        .aligned("m/data/a", &values)
        .aligned("m/data/b", &values);
    assert_eq!(trips_to_two(&mixed.finish()), 3);
    // Without this rule, the data of the storages would be expected 64 bytes after their
    // places.
    let mut shifted = start();
    for name in ["m/data/a", "m/data/b"] {
        shifted = shifted.shifted(name, &values);
    }
    assert_eq!(trips_to_two(&shifted.finish()), 3);
}
