//! Every golden vector decodes to its expected bytes with both engines, names
//! of plain and packed files follow the table that the tests of all languages
//! use, and files of every released version stay readable:
//! `tests/vectors/released`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;
use zstn_core::Result;
use zstn_core::bytes::{index, part};
use zstn_core::catalog::{FileCatalog, FileKind, FileOpener, IndexName, renamed};
use zstn_core::container::model_delta::{Base, BaseHeader, ModelDelta};
use zstn_core::container::zstn::{ContainerOptions, pack, unpack};
use zstn_core::engine::Engine;
use zstn_core::frame::select::Effort;
use zstn_core::frame::{Frame, decompress};
use zstn_core::limits::FRAME_DECODED_BYTES;
use zstn_core::pure::Pure;
use zstn_core::sketch::Sketch;
use zstn_tests::{cases, native, repository, sha256, with_header};

fn frames_decode(engine: &impl Engine) {
    let mut decoded = 0;
    for (name, case) in cases::frames() {
        let frame = cases::read("z4ai", &format!("{name}.z4ai"));
        let bytes = decompress(engine, &frame, FRAME_DECODED_BYTES)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(bytes.len() as u64, case.original_len, "{name}");
        assert_eq!(sha256(&bytes), case.original_sha256, "{name}");
        // Every byte of the output is written, whatever it contains before.
        let mut out = vec![0xAA; bytes.len()];
        let parsed = Frame::parse(&frame).expect("it has just been parsed");
        parsed.decode(engine, &mut out).expect("decodes");
        assert!(out == bytes, "{name}: decoding in place differs");
        decoded += 1;
    }
    assert!(decoded >= 514, "only {decoded} frames");
}

#[test]
fn frames_decode_with_c_zstd() {
    frames_decode(&native());
}

#[test]
fn frames_decode_with_rust_alone() {
    frames_decode(&Pure);
}

/// Opens a file as an HTTP reader does: first the head, then the missing ranges.
/// Returns the catalog and the number of round trips and bytes.
pub(super) fn open(file: &[u8]) -> Result<(FileCatalog, usize, usize)> {
    let len = file.len() as u64;
    let part = |range| part(file, range);
    let head = part(0..FileOpener::head_len_bytes(len));
    let (mut trips, mut bytes) = (1, head.len());
    let mut opening = FileOpener::new(len, head.to_vec())?;
    loop {
        let needs = opening.needs()?;
        if needs.is_empty() {
            return Ok((opening.finish(&Pure)?, trips, bytes));
        }
        trips += 1;
        for range in needs {
            bytes += part(range.clone()).len();
            opening.supply(range.start, part(range))?;
        }
    }
}

fn containers_restore(engine: &impl Engine) {
    let mut restored = 0;
    for case in cases::containers() {
        let name = &case.name;
        let bytes = unpack(engine, &case.packed()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(bytes == case.original(), "{name} restores other bytes");
        restored += 1;
    }
    assert!(restored >= 35, "only {restored} containers");
}

#[test]
fn containers_restore_with_c_zstd() {
    containers_restore(&native());
}

#[test]
fn containers_restore_with_rust_alone() {
    containers_restore(&Pure);
}

#[test]
fn every_tensor_reads_by_name() {
    let mut read = 0;
    for case in cases::containers() {
        let name = &case.name;
        let packed = case.packed();
        let opened = open(&packed);
        let official = case.official.as_ref().is_some_and(|o| o.valid);
        let indexed = case.layout.as_ref().is_some_and(|l| l.contiguous != 0);
        if !official || !indexed {
            assert!(opened.is_err(), "{name} must not be read by name");
            continue;
        }
        let (catalog, trips, _) = opened.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(trips <= 3, "{name}: {trips} round trips");
        assert_eq!(catalog.tensors().len(), case.tensors().len(), "{name}");
        for truth in case.tensors() {
            let number = catalog.find(&truth.name).expect("listed");
            let tensor = &catalog.tensors()[number];
            assert_eq!(Some(tensor.dtype.name()), truth.dtype.as_deref(), "{name}");
            assert_eq!(Some(&tensor.shape), truth.shape.as_ref(), "{name}");
            let stored = part(&packed, tensor.stored.clone());
            let bytes = catalog
                .decode(&Pure, number, stored)
                .unwrap_or_else(|error| panic!("{name}/{}: {error}", truth.name));
            assert_eq!(Some(sha256(&bytes)), truth.sha256, "{name}/{}", truth.name);
            read += 1;
        }
    }
    assert!(read > 600, "only {read} tensors");
}

#[test]
fn plain_safetensors_read_by_name() {
    for case in cases::containers() {
        let original = case.original();
        let opened = open(&original);
        if !case.official.as_ref().is_some_and(|o| o.valid) {
            assert!(opened.is_err(), "{} breaks the official rules", case.name);
            continue;
        }
        let (catalog, trips, _) = opened.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert!(trips <= 2);
        for truth in case.tensors() {
            let number = catalog.find(&truth.name).expect("listed");
            let stored = part(&original, catalog.tensors()[number].stored.clone());
            let bytes = catalog.decode(&Pure, number, stored).expect("plain bytes");
            assert_eq!(
                Some(sha256(&bytes)),
                truth.sha256,
                "{}/{}",
                case.name,
                truth.name
            );
        }
    }
}

#[test]
fn what_we_pack_has_the_structure_z4ai_would_write() {
    // Records, aliases and spans equal z4ai's; only frames may differ.
    let engine = native();
    for case in cases::containers() {
        if case.made_by.as_deref() != Some("z4ai 0.2.0") {
            continue;
        }
        let original = case.original();
        let options = ContainerOptions::default().allow_truncated(true);
        let ours = pack(&engine, &original, options).expect("packs");
        assert!(
            unpack(&Pure, &ours).expect("unpacks") == original,
            "{} comes back different",
            case.name
        );
        // z4ai stores this one valid file as a single frame.
        if case.name == "noncontig_empty_tie" {
            continue;
        }
        let (Ok((a, ..)), Ok((b, ..))) = (open(&ours), open(&case.packed())) else {
            continue;
        };
        let shape = |catalog: &FileCatalog| {
            catalog
                .tensors()
                .iter()
                .map(|t| (t.name.clone(), t.span.clone(), t.alias_of))
                .collect::<Vec<_>>()
        };
        assert_eq!(shape(&a), shape(&b), "{}", case.name);
    }
}

/// Other programs may store the frame of two equal tensors under the second one
/// (docs/formats/z4ai-containers.md 2.7).
#[test]
fn an_alias_may_be_of_a_later_tensor() {
    let (catalog, ..) = open(&cases::read("zstn", "foreign_forward_ref.zstn")).expect("opens");
    let tensors = catalog.tensors();
    let aliases: Vec<_> = tensors.iter().map(|tensor| tensor.alias_of).collect();
    assert_eq!(aliases, [Some(1), None]);
    assert_eq!(tensors[0].stored, tensors[1].stored);
}

#[test]
fn a_large_index_opens_in_two_round_trips() {
    // 3000 distinct tensors make the header, index and integrity section far larger
    // than the head.
    let mut header = String::from("{");
    for i in 0..3000 {
        use std::fmt::Write as _;
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(
            header,
            "{comma}\"a.{i}\":{{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[{},{}]}}",
            2 * i,
            2 * i + 2
        );
    }
    header.push('}');
    let mut file = with_header(header, b"");
    file.extend((0..3000u16).flat_map(u16::to_le_bytes));
    let packed = pack(&native(), &file, Effort::Fast).expect("packs");
    let (catalog, trips, _) = open(&packed).expect("opens");
    assert_eq!((catalog.tensors().len(), trips), (3000, 2));
    assert!(catalog.integrity().is_some_and(|i| i.is_complete()));
}

fn table() -> Value {
    let text = fs::read(repository().join("tests/names.json")).expect("the table");
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn packing_changes_one_part_of_a_name_and_unpacking_restores_it() {
    let table = table();
    for row in table["names"].as_array().expect("rows") {
        let text = |key: &str| row[key].as_str().expect("a name");
        let (plain, packed) = (text("plain"), text("packed"));
        let [from, to] = [FileKind::Safetensors, FileKind::Zstn];
        assert_eq!(renamed(plain, from, to).as_deref(), Some(packed));
        assert_eq!(renamed(packed, to, from).as_deref(), Some(plain));
        assert_eq!(
            renamed(packed, from, to),
            None,
            "{packed} is already packed"
        );
        let delta = renamed(plain, from, FileKind::Delta).expect("a name");
        assert_eq!(
            renamed(&delta, FileKind::Delta, from).as_deref(),
            Some(plain)
        );
        for (name, kind) in [(plain, from), (packed, to)] {
            let index = IndexName::parse(name);
            assert_eq!(index.is_some(), row["index"] == true, "{name}");
            assert!(index.is_none_or(|index| index.kind() == kind));
            let has_variant = index.is_some_and(|index| index.has_variant());
            assert_eq!(has_variant, row["variant"] == true, "{name}");
        }
    }
}

#[test]
fn other_names_stay() {
    for name in table()["others"].as_array().expect("names") {
        let name = name.as_str().expect("a name");
        assert_eq!(
            renamed(name, FileKind::Safetensors, FileKind::Zstn),
            None,
            "{name}"
        );
        assert_eq!(IndexName::parse(name), None, "{name}");
    }
}

/// The releases and the digests of their manifests, which contain the digests of all
/// files. Each release with new files adds an entry; existing entries never change.
const RELEASES: [(&str, &str); 1] = [(
    "0.1.0",
    "f0223f4e82fc2045b04c1a61b22d879eaaa9adc969a2b7b60d716f840a035810",
)];

#[derive(Deserialize)]
struct Manifest {
    originals: BTreeMap<String, String>,
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    file: String,
    kind: String,
    sha256: String,
    /// The version stored in the file, if its format has one.
    version: Option<u8>,
    /// Name of the original that the file restores.
    restores: Option<String>,
    /// Name of the base that the file needs.
    base: Option<String>,
    /// Names of the checkpoints from which its base is computed.
    #[serde(default)]
    bases: Vec<String>,
    /// The digests of its tensors, by name.
    tensors: Option<BTreeMap<String, String>>,
}

/// The files of one release.
struct Release {
    folder: PathBuf,
    manifest: Manifest,
}

impl Release {
    fn read(&self, name: &str) -> Vec<u8> {
        let path = self.folder.join(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

fn releases() -> Vec<Release> {
    let all = repository().join("tests/vectors/released");
    let folders = fs::read_dir(&all).expect("the releases").count();
    assert_eq!(
        folders,
        RELEASES.len(),
        "a release without a line in RELEASES"
    );
    let release = |(version, digest): &(&str, &str)| {
        let folder = all.join(version);
        let bytes = fs::read(folder.join("manifest.json")).expect("a manifest");
        assert_eq!(
            sha256(&bytes),
            *digest,
            "the manifest of {version} was changed"
        );
        let manifest = serde_json::from_slice(&bytes).expect("a manifest");
        Release { folder, manifest }
    };
    RELEASES.iter().map(release).collect()
}

#[test]
fn no_released_file_is_changed_or_removed() {
    for release in releases() {
        let files = release.manifest.files.iter();
        let digests = files.map(|file| (&file.file, &file.sha256));
        for (name, digest) in digests.chain(&release.manifest.originals) {
            assert_eq!(sha256(&release.read(name)), *digest, "{name}");
        }
    }
}

fn released_files_decode(engine: &impl Engine) {
    let mut decoded = 0;
    for release in releases() {
        for file in &release.manifest.files {
            let bytes = release.read(&file.file);
            decode(engine, &release, file, &bytes);
            decoded += 1;
        }
    }
    assert!(decoded >= 10, "only {decoded} files");
}

fn decode(engine: &impl Engine, release: &Release, file: &File, bytes: &[u8]) {
    let name = &file.file;
    if let Some(version) = file.version {
        assert_eq!(bytes[4], version, "{name}");
    }
    let restored = match &*file.kind {
        "zstn" => unpack(engine, bytes).expect(name),
        "z4dm" => {
            let base = match &file.base {
                Some(base) => release.read(base),
                None => {
                    let sources = file.bases.iter().map(|base| release.read(base));
                    mixed_base(bytes, &sources.collect::<Vec<_>>())
                }
            };
            let base = Base::parse(&base).expect(name);
            let delta = ModelDelta::parse(bytes).expect(name);
            delta.unpack(engine, &base).expect(name)
        }
        "frame" => decompress(engine, bytes, FRAME_DECODED_BYTES).expect(name),
        "sketch" => {
            let sketch = Sketch::parse(engine, bytes).expect(name);
            assert_eq!(sketch.tensors().len(), 8, "{name}");
            let len = release.read("base.safetensors").len() as u64;
            assert_eq!(sketch.original_len_bytes(), len, "{name}");
            return;
        }
        _ => return tensors(engine, file, bytes),
    };
    let original = release.read(file.restores.as_deref().expect("an original"));
    assert!(restored == original, "{name} restores other bytes");
}

/// Computes the base of a delta that was made against several checkpoints.
fn mixed_base(delta: &[u8], sources: &[Vec<u8>]) -> Vec<u8> {
    let (catalog, _, _) = open(delta).expect("a delta");
    let headers = sources
        .iter()
        .map(|source| BaseHeader::parse(source, source.len() as u64).expect("a header"));
    let base = catalog.mixed_base(&headers.collect::<Vec<_>>());
    let base = base.expect("sources").expect("a computed base");
    let mut file = base.head.clone();
    for tensor in &base.tensors {
        let places = tensor.places.iter();
        let parts = places.map(|place| part(&sources[place.source], place.range.clone()));
        let parts: Vec<&[u8]> = parts.collect();
        let mut bytes = vec![0; index(tensor.range.end - tensor.range.start)];
        tensor.compute(&parts, &mut bytes).expect("all elements");
        file.extend_from_slice(&bytes);
    }
    file
}

/// Reads the tensors of a file by name and compares their digests.
fn tensors(engine: &impl Engine, file: &File, bytes: &[u8]) {
    let (catalog, _, _) = open(bytes).expect(&file.file);
    let expected = file.tensors.as_ref().expect("digests of tensors");
    assert_eq!(catalog.tensors().len(), expected.len(), "{}", file.file);
    for (name, digest) in expected {
        let number = catalog.find(name).expect("listed");
        let stored = part(bytes, catalog.tensors()[number].stored.clone());
        let tensor = catalog.decode(engine, number, stored).expect(name);
        assert_eq!(sha256(&tensor), *digest, "{}: {name}", file.file);
    }
}

#[test]
fn released_files_decode_with_c_zstd() {
    released_files_decode(&zstn::Engine::new(2).expect("two threads"));
}

#[test]
fn released_files_decode_with_rust_alone() {
    released_files_decode(&Pure);
}
