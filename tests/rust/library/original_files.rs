//! Files of formats other than safetensors: they are packed, restored byte for byte, and
//! read tensor by tensor from the packed file.

use std::collections::BTreeSet;
use std::path::Path;

use tempfile::TempDir;
use zstn::{
    Job, PackOptions, PackReport, Reader, SafetensorsView, UnpackOptions, VerifyOptions, View,
};
use zstn_core::Rule;
use zstn_core::bytes::part;
use zstn_core::catalog::FileKind;
use zstn_core::frame::Frame;
use zstn_core::frame::z4ai::Transform;
use zstn_tests::foreign::open_in_trips;
use zstn_tests::gguf::{F32, GgufTensor, Value, file};
use zstn_tests::rng::Rng;
use zstn_tests::{cases, checkpoint};

pub(super) const FLAG_AT: usize = 5;
pub(super) const VIRTUAL: u8 = 8;

pub(super) fn pack(folder: &Path, name: &str, options: &PackOptions) -> PackReport {
    let packed = folder.join("packed.zstn");
    zstn::pack(&Job::new(), folder.join(name), packed, options)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Packs a file, and checks that the packed file restores it and is verified. Returns the
/// packed file.
pub(super) fn packed_and_restored(
    folder: &Path,
    name: &str,
    original: &[u8],
    options: &PackOptions,
) -> Vec<u8> {
    std::fs::write(folder.join(name), original).expect("written");
    pack(folder, name, options);
    let (packed, back) = (folder.join("packed.zstn"), folder.join("back"));
    let report = zstn::unpack(&Job::new(), &packed, &back, &UnpackOptions::default());
    let report = report.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(report.original_bytes(), original.len() as u64, "{name}");
    assert!(
        std::fs::read(&back).expect("restored") == original,
        "{name}"
    );
    let against = VerifyOptions::default().original(folder.join(name));
    let verified = zstn::verify(&Job::new(), &packed, &against);
    let verified = verified.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(verified.identical, "{name}");
    let bytes = std::fs::read(packed).expect("packed");
    assert_eq!(bytes[FLAG_AT] & VIRTUAL, VIRTUAL, "{name}");
    bytes
}

pub(super) fn rule_of(error: &zstn::Error) -> Option<Rule> {
    error.refusal().and_then(zstn_core::Error::rule)
}

pub(super) fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Compares all tensors of two readers: names, types, shapes, values, and some rows.
pub(super) fn assert_same_tensors(name: &str, packed: &Reader, plain: &Reader) {
    let sorted =
        |reader: &Reader| -> BTreeSet<String> { reader.names().map(String::from).collect() };
    assert_eq!(sorted(packed), sorted(plain), "{name}");
    for tensor in plain.tensors() {
        let place = format!("{name}: {}", tensor.name);
        let found = packed.find(&tensor.name).expect(&place);
        assert_eq!(found.dtype, tensor.dtype, "{place}");
        assert_eq!(found.shape, tensor.shape, "{place}");
        assert_eq!(found.format(), tensor.format(), "{place}");
        let read = |reader: &Reader| reader.read(&tensor.name).expect(&place).bytes;
        assert!(read(packed) == read(plain), "{place}");
        if let Some(&rows) = tensor.shape.first() {
            let rows = rows / 3..rows - rows / 4;
            let read = |reader: &Reader| {
                let rows = reader.read_rows(&tensor.name, rows.clone()).expect(&place);
                (rows.shape, rows.bytes)
            };
            assert!(read(packed) == read(plain), "{place}");
        }
    }
}

#[test]
fn every_vector_is_restored_and_its_tensors_are_read() {
    let folder = folder();
    let mut listed = 0;
    for (kind, of, extension) in [
        (FileKind::Gguf, "gguf", "gguf"),
        (FileKind::Npy, "npy", "npy"),
    ] {
        for entry in cases::entries(of, "files") {
            let file = cases::text(&entry["file"]);
            let name = format!("original.{extension}");
            let original = cases::read(of, &file);
            for options in [
                PackOptions::default(),
                PackOptions::default().integrity(false),
            ] {
                packed_and_restored(folder.path(), &name, &original, &options);
                let packed = Reader::open(folder.path().join("packed.zstn")).expect(&file);
                let plain = Reader::open(folder.path().join(&name)).expect(&file);
                assert_same_tensors(&file, &packed, &plain);
                let inner = match packed.model().files()[0].original_kind() {
                    Some(found) => {
                        assert_eq!(found, kind.name(), "{file}");
                        packed.original().expect(&file).expect("an original")
                    }
                    // Not all tensors are in the header, so the original was opened.
                    None => packed.clone(),
                };
                assert_eq!(inner.metadata(), plain.metadata(), "{file}");
                assert_same_tensors(&file, &inner, &plain);
                listed += 1;
            }
        }
    }
    assert!(listed >= 80, "only {listed}");
}

#[test]
fn other_bytes_are_restored() {
    let folder = folder();
    let mut packed = 0;
    for of in ["gguf-bad", "npy-bad", "ztensor-bad", "gauss-bad"] {
        for entry in cases::malformed(of) {
            let original = cases::named(of, &entry);
            if original.starts_with(b"ZSTN") || original.starts_with(b"Z4DM") {
                continue;
            }
            let name = cases::text(&entry["file"]);
            let bytes =
                packed_and_restored(folder.path(), "file", &original, &PackOptions::default());
            let (catalog, _) = open_in_trips(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(
                catalog.original_len_bytes(),
                original.len() as u64,
                "{name}"
            );
            packed += 1;
        }
    }
    assert!(packed >= 100, "only {packed}");
    let long = Rng(7).bytes(17 << 20);
    for original in [&b""[..], b"x", b"plain text\n", &long] {
        packed_and_restored(folder.path(), "file", original, &PackOptions::default());
        let report = pack(folder.path(), "file", &PackOptions::default());
        let of = report.files[0].original.as_ref().expect("not safetensors");
        assert_eq!(of.kind, "bytes");
        assert!(of.refusal.is_some());
        assert_eq!(report.files[0].tensors, 0);
    }
}

#[test]
fn no_file_of_another_format_is_restored_as_safetensors() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("m.gguf"), cases::read("gguf", "k-blocks.gguf")).expect("written");
    let packed = at("m-00001-of-00001.zstn");
    zstn::pack(&Job::new(), at("m.gguf"), &packed, &PackOptions::default()).expect("packed");
    let index = r#"{"weight_map":{"w.q2_k":"m-00001-of-00001.zstn"}}"#;
    std::fs::write(at("m.zstn.index.json"), index).expect("written");
    for (input, output) in [
        ("m-00001-of-00001.zstn", "m.safetensors"),
        ("m.zstn.index.json", "restored"),
    ] {
        let options = UnpackOptions::default();
        let error = zstn::unpack(&Job::new(), at(input), at(output), &options).unwrap_err();
        assert_eq!(error.code(), "usage", "{error}");
        assert!(error.to_string().contains("not safetensors"), "{error}");
        assert!(!at(output).exists());
    }
}

#[test]
fn a_safetensors_file_has_no_virtual_header() {
    let folder = folder();
    let original = checkpoint(&[("w", "F32", &[1, 2, 3, 4])]);
    std::fs::write(folder.path().join("m.safetensors"), original).expect("written");
    let report = pack(folder.path(), "m.safetensors", &PackOptions::default());
    assert_eq!(report.files[0].original, None);
    let packed = std::fs::read(folder.path().join("packed.zstn")).expect("packed");
    assert_eq!(packed[FLAG_AT] & VIRTUAL, 0);
}

pub(super) fn gguf(tensors: &[GgufTensor]) -> Vec<u8> {
    file(&[("general.name", Value::Text("a model"))], tensors)
}

pub(super) const Q8_0: u32 = 8;
pub(super) const Q4_K: u32 = 12;
pub(super) const BF16: u32 = 30;

/// Returns blocks whose first bytes, the scales, are similar, and whose other bytes are
/// random.
pub(super) fn blocks(rng: &mut Rng, count: usize, block_bytes: usize) -> Vec<u8> {
    let mut bytes = rng.bytes(count * block_bytes);
    for (number, block) in bytes.chunks_exact_mut(block_bytes).enumerate() {
        block[0] = (number % 7).to_le_bytes()[0];
        block[1] = 0x2a;
    }
    bytes
}

/// A GGUF file with long and short tensors of block types and of plain ones.
pub(super) fn model() -> Vec<u8> {
    let mut rng = Rng(3);
    let scales = |rng: &mut Rng, count: usize| -> Vec<u8> {
        (0..count)
            .flat_map(|_| {
                let value = u16::try_from(rng.next_u64() % 1000).expect("below 1000");
                (f32::from(value) / 1000.0).to_le_bytes()
            })
            .collect()
    };
    let q4 = blocks(&mut rng, 256 * 24, 144);
    gguf(&[
        ("blk.0.attn_q.weight", Q4_K, &[256 * 24, 256], q4.clone()),
        ("blk.0.norm.weight", F32, &[64], scales(&mut rng, 64)),
        ("blk.0.norm.bias", F32, &[64], scales(&mut rng, 64)),
        (
            "blk.0.attn_k.weight",
            Q8_0,
            &[1024, 512],
            blocks(&mut rng, 32 * 512, 34),
        ),
        (
            "blk.0.scales.weight",
            Q8_0,
            &[32, 2],
            blocks(&mut rng, 2, 34),
        ),
        ("blk.1.attn_q.weight", Q4_K, &[256 * 24, 256], q4),
        (
            "output.weight",
            BF16,
            &[512, 1024],
            rng.bf16_weights(512 * 1024),
        ),
        ("empty", F32, &[0, 7], Vec::new()),
    ])
}

#[test]
fn quantised_tensors_are_coded_by_the_bytes_of_their_blocks() {
    let folder = folder();
    let original = model();
    let packed = packed_and_restored(
        folder.path(),
        "model.gguf",
        &original,
        &PackOptions::default(),
    );
    assert!(packed.len() < original.len());
    let (catalog, trips) = open_in_trips(&packed).expect("a catalog");
    assert_eq!(trips, 2);
    assert_eq!(
        (catalog.kind(), catalog.original_kind()),
        (FileKind::Zstn, Some("gguf"))
    );
    for (name, width) in [("blk.0.attn_q.weight", 144), ("blk.0.attn_k.weight", 34)] {
        let tensor = &catalog.tensors()[catalog.find(name).expect(name)];
        let Ok(Frame::Z4ai(frame)) = Frame::parse(part(&packed, tensor.stored.clone())) else {
            panic!("{name} has another frame");
        };
        assert_eq!(frame.transform(), Transform::BytePlane(width), "{name}");
    }
    let plain = Reader::open(folder.path().join("model.gguf")).expect("opened");
    let reader = Reader::open(folder.path().join("packed.zstn")).expect("opened");
    assert_same_tensors("model", &reader, &plain);
    let equal = reader.find("blk.1.attn_q.weight").expect("listed");
    let first = equal
        .alias_of
        .map(|number| reader.tensors()[number].name.as_str());
    assert_eq!(first, Some("blk.0.attn_q.weight"));
    let rows = reader.plan_rows("output.weight", 3..7).expect("planned");
    assert!(!rows.is_whole());
    // Statistics describe values, and the bytes of blocks are none.
    let summaries = reader.summaries().expect("read");
    for (tensor, figures) in reader.tensors().iter().zip(summaries) {
        let is_plain = tensor.format().is_none() && tensor.len_bytes() >= 4096;
        assert_eq!(figures.is_some(), is_plain, "{}", tensor.name);
    }
}

#[test]
fn a_few_rows_of_a_quantised_tensor_fetch_a_short_block_of_each_plane() {
    let mut rng = Rng(7);
    let (columns, rows) = (4096, 1200);
    let mut blocks = Vec::new();
    for _ in 0..columns / 32 * rows {
        blocks.extend(u16::to_le_bytes(0x2a00 + (rng.next_u64() % 600) as u16));
        #[allow(clippy::cast_possible_truncation)]
        blocks.extend((0..32).map(|_| (rng.normal(30.0) as i8).to_le_bytes()[0]));
    }
    let sizes = [columns as u64, rows as u64];
    let original = gguf(&[("w", Q8_0, &sizes, blocks)]);
    let folder = folder();
    let options = PackOptions::default();
    let packed = packed_and_restored(folder.path(), "model.gguf", &original, &options);
    let reader = Reader::open(folder.path().join("packed.zstn")).expect("opened");
    let plan = reader.plan_rows("w", 290..300).expect("planned");
    let fetched = plan.fetched_len_bytes().expect("in blocks");
    // A block of each of the 34 planes has at most 64 KiB.
    assert!(fetched <= 34 << 16, "{fetched} of {}", packed.len());
    let plain = Reader::open(folder.path().join("model.gguf")).expect("opened");
    let read = |reader: &Reader| reader.read_rows("w", 290..300).expect("read");
    assert_eq!(read(&reader), read(&plain));
}

#[test]
fn a_packed_file_is_read_as_the_original_and_as_its_entries() {
    let folder = folder();
    let original = model();
    let options = PackOptions::default();
    let packed = packed_and_restored(folder.path(), "model.gguf", &original, &options);
    let stored = Reader::options().view(View::Stored);
    let stored = stored
        .open(folder.path().join("packed.zstn"))
        .expect("opened");
    let entries: Vec<_> = stored.tensors().iter().map(|t| t.len_bytes()).collect();
    assert_eq!(entries.iter().sum::<u64>(), original.len() as u64);
    assert!(stored.names().any(|name| name == "@bytes/0"));
    let q4 = stored.find("blk.0.attn_q.weight").expect("an entry");
    assert_eq!(
        (q4.dtype.name(), &q4.shape[..]),
        ("U8", &[256, 144 * 24][..])
    );
    let view = SafetensorsView::new(stored, 1 << 20).expect("a view");
    assert!(view.is_original());
    assert_eq!(view.len_bytes(), original.len() as u64);
    let mut bytes = vec![0; 100_000];
    for start in [0, 777, 500_000, original.len() - bytes.len()] {
        view.read_into(start as u64, &mut bytes).expect("read");
        assert!(bytes == original[start..start + bytes.len()], "{start}");
    }
    // A stream gets the original, too.
    let mut out = Vec::new();
    let sink = zstn::Sink::writer(&mut out);
    zstn::unpack(
        &Job::new(),
        folder.path().join("packed.zstn"),
        sink,
        &UnpackOptions::default(),
    )
    .expect("restored");
    assert!(out == original);
    assert!(zstn_core::container::zstn::unpack(&zstn_tests::native(), &packed) == Ok(original));
}

/// The formats some of whose tensors are not in a virtual header.
const OTHER_FORMATS: [(&str, &str); 8] = [
    ("onnx", "onnx"),
    ("msgpack", "msgpack"),
    ("tflite", "tflite"),
    ("npz", "npz"),
    ("pytorch", "pt"),
    ("hdf5", "h5"),
    ("keras", "keras"),
    ("tar", "nemo"),
];

/// The files with tensors that have no place in the virtual header, because they are
/// compressed, big-endian, in chunks, repeated, or fields of numbers. Files with tensors that
/// are not read are not listed.
const INCOMPLETE: [&str; 22] = [
    "chunk-indexes-latest.h5",
    "extensible-arrays-latest.h5",
    "chunk-trees-latest.h5",
    "paged-arrays-latest.h5",
    "deflated.pt",
    "byteorder-big.pt",
    "strided.pt",
    "bytes-in-front.pt",
    "big-endian-complex.pt",
    "other-members.npz",
    "deflated.npz",
    "long-header.npz",
    "sub-byte.onnx",
    "typed-fields.onnx",
    "big-endian.h5",
    "fill-values.h5",
    "implicit-index-latest.h5",
    "keras-filters.h5",
    "filters-latest.h5",
    "chunked.msgpack",
    "chunks.keras",
    "gnu.nemo",
];

#[test]
fn tensors_of_other_formats_are_read_and_verified_in_a_packed_file() {
    let folder = folder();
    let (mut read, mut refused) = (0, 0);
    for (of, extension) in OTHER_FORMATS {
        for entry in cases::entries(of, "files") {
            let file = cases::text(&entry["file"]);
            let name = format!("original.{extension}");
            let original = cases::read(of, &file);
            let bytes =
                packed_and_restored(folder.path(), &name, &original, &PackOptions::default());
            let Ok(plain) = Reader::open(folder.path().join(&name)) else {
                continue;
            };
            let packed = Reader::open(folder.path().join("packed.zstn")).expect(&file);
            assert_same_tensors(&file, &packed, &plain);
            let names = |reader: &Reader| -> Vec<String> {
                let refused = reader.model().refused();
                refused.map(|(name, _)| name.to_owned()).collect()
            };
            assert_eq!(names(&packed), names(&plain), "{file}");
            let outer = packed.packed_file().or(packed.model().files().first());
            assert_eq!(
                outer.and_then(|file| file.original_kind()),
                Some(of),
                "{file}"
            );
            read += 1;
            // Without the restored file, no list passes for a complete one.
            let (catalog, _) = open_in_trips(&bytes).expect(&file);
            let is_complete = catalog.is_original_complete();
            let is_all = names(&plain).is_empty() && !INCOMPLETE.contains(&&*file);
            assert_eq!(is_complete, is_all, "{file}");
            let model = zstn_core::model::ModelBuilder::new(vec![catalog], None, None);
            let model = model.and_then(|model| model.finish(&zstn_tests::native()));
            let model = model.expect(&file);
            assert_eq!(model.refused().next().is_none(), is_complete, "{file}");
            refused += usize::from(!is_complete);
        }
    }
    assert!(read >= 40 && refused > 0, "{read} read, {refused} refused");
}
