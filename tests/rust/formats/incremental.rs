//! Incremental packing produces the same file as packing in memory, and so does the npm
//! package: this test and `tests/js/node/pack.test.mjs` check the digests in
//! `vectors/pure-pack.json`, and for files of other formats this test and
//! `tests/js/node/pack-originals.test.mjs` check those in `vectors/pure-original.json`.
//!
//! When the encoder's choices change, the digests change. Run this test once with
//! `ZSTN_WRITE_DIGESTS=1` to update them.

use std::collections::BTreeMap;
use std::{env, fs};

use zstn_core::bytes::part;
use zstn_core::container::zstn::{ContainerOptions, EntryCodings, IncrementalPacker, pack, unpack};
use zstn_core::frame::select::Effort;
use zstn_core::limits::HEAD_LEN_BYTES;
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, Result, Rule};
use zstn_tests::foreign::{open_in_trips, open_named};
use zstn_tests::rng::Rng;
use zstn_tests::{cases, repository, sha256, with_header};

/// Digests, keyed by the name of the case.
pub type Digests = BTreeMap<String, String>;

/// Compares the digests at every effort with the ones in the vector file `name`.
/// `digests_of` must return at least `min_cases` digests.
pub fn check(name: &str, min_cases: usize, digests_of: impl Fn(Effort) -> Digests) {
    let efforts = [
        ("fast", Effort::Fast),
        ("balanced", Effort::Balanced),
        ("max", Effort::Max),
    ];
    let ours: BTreeMap<&str, Digests> = efforts
        .into_iter()
        .map(|(name, effort)| (name, digests_of(effort)))
        .collect();
    assert!(
        ours["balanced"].len() >= min_cases,
        "the vectors were found"
    );
    let ours = serde_json::to_value(ours).expect("plain strings");
    let path = repository().join("tests/vectors").join(name);
    if env::var_os("ZSTN_WRITE_DIGESTS").is_some() {
        let text = serde_json::to_string_pretty(&ours).expect("plain strings") + "\n";
        fs::write(&path, text).expect("the vectors can be written");
    }
    let text = fs::read(&path).expect("the digests are in the repository");
    let known: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    assert!(
        ours == known,
        "the encoder chooses differently from what is written down: ZSTN_WRITE_DIGESTS=1 \
         writes it anew, if that was intended"
    );
}

/// Packs incrementally as a web page does.
fn piecewise(file: &[u8], effort: Effort) -> Result<(Vec<u8>, IncrementalPacker)> {
    let mut packing = IncrementalPacker::new(
        file.len() as u64,
        ContainerOptions::new(effort).allow_truncated(true),
    );
    let (mut out, mut read) = (Vec::new(), 0);
    while let Some(range) = packing.needs() {
        let bytes = part(file, range);
        read += bytes.len();
        out.extend(packing.supply(&Pure, bytes)?);
    }
    assert_eq!(read, file.len(), "every byte is read once");
    Ok((out, packing))
}

fn digests_of(effort: Effort) -> Digests {
    let mut digests = Digests::new();
    for case in cases::containers() {
        let original = case.original();
        let (packed, packing) = piecewise(&original, effort).expect("it packs");
        let options = ContainerOptions::new(effort).allow_truncated(true);
        let whole = pack(&Pure, &original, options).expect("it packs");
        assert!(packed == whole, "{}: two ways, two files", case.name);
        assert!(
            unpack(&Pure, &packed).expect("it unpacks") == original,
            "{} restores other bytes",
            case.name
        );
        let official = case.official.as_ref().is_some_and(|o| o.valid);
        assert_eq!(packing.is_indexed(), official, "{}", case.name);
        digests.insert(case.name, sha256(&packed));
    }
    digests
}

#[test]
fn files_of_other_formats_are_packed_with_a_virtual_header() {
    let mut described = 0;
    for (folder, list) in [("gguf", "files"), ("npy", "files")] {
        for entry in cases::entries(folder, list) {
            let name = cases::text(&entry["file"]);
            let original = cases::read(folder, &name);
            let (packed, packing) = piecewise(&original, Effort::Balanced).expect(&name);
            assert!(packing.is_indexed(), "{name}");
            assert!(unpack(&Pure, &packed).expect(&name) == original, "{name}");
            let (catalog, _) = open_in_trips(&packed).expect(&name);
            assert_eq!(catalog.original_kind(), Some(folder), "{name}");
            described += catalog.tensors().len();
        }
    }
    assert!(described >= 80, "only {described} tensors");
    for original in [&b""[..], b"GGUF", b"any text", &[0; 100_000]] {
        let (packed, _) = piecewise(original, Effort::Balanced).expect("packed");
        assert!(unpack(&Pure, &packed).expect("restored") == original);
        let (catalog, _) = open_in_trips(&packed).expect("opened");
        assert_eq!(catalog.original_kind(), Some("bytes"));
    }
}

#[test]
fn the_same_bytes_every_time_and_everywhere() {
    check("pure-pack.json", 35, digests_of);
}

/// Packs the file with a virtual header that was computed elsewhere, as the npm package
/// does.
fn described(name: &str, file: &[u8], effort: Effort) -> Vec<u8> {
    let (catalog, _) = open_named(name, file).expect(name);
    let header = catalog.virtual_header().expect(name);
    let codings = EntryCodings::new(header.codings().pairs());
    let head = part(file, 0..HEAD_LEN_BYTES.min(file.len() as u64));
    let mut packing = IncrementalPacker::new(file.len() as u64, effort);
    packing
        .describe(head, header.json().to_vec(), codings)
        .expect("packing has not begun");
    let (mut out, mut read) = (Vec::new(), head.len());
    while let Some(range) = packing.needs() {
        let bytes = part(file, range);
        read += bytes.len();
        out.extend(packing.supply(&Pure, bytes).expect(name));
    }
    assert_eq!(read, file.len(), "every byte of {name} is read once");
    out
}

fn digests_of_originals(effort: Effort) -> Digests {
    let mut digests = Digests::new();
    for folder in [
        "gguf", "hdf5", "msgpack", "npy", "npz", "onnx", "pytorch", "tflite",
    ] {
        for entry in cases::entries(folder, "files") {
            let name = cases::text(&entry["file"]);
            let original = cases::read(folder, &name);
            let packed = described(&name, &original, effort);
            let mut opening = IncrementalPacker::new(original.len() as u64, effort).named(&name);
            let mut opened = Vec::new();
            while let Some(range) = opening.needs() {
                let supplied = opening.supply(&Pure, part(&original, range));
                opened.extend(supplied.expect(&name));
            }
            assert!(packed == opened, "{name}: two ways, two files");
            assert!(unpack(&Pure, &packed).expect(&name) == original, "{name}");
            digests.insert(format!("{folder}/{name}"), sha256(&packed));
        }
    }
    digests
}

#[test]
fn files_of_other_formats_have_the_same_bytes_everywhere() {
    check("pure-original.json", 100, digests_of_originals);
}

#[test]
fn a_virtual_header_is_refused_after_the_start_and_for_another_file() {
    let file = cases::read("npy", "le-f4.npy");
    let (catalog, _) = open_in_trips(&file).expect("opened");
    let header = catalog.virtual_header().expect("described");
    let describe = |packing: &mut IncrementalPacker| {
        packing.describe(&[], header.json().to_vec(), header.codings().clone())
    };
    let mut packing = IncrementalPacker::new(file.len() as u64, Effort::Fast);
    describe(&mut packing).expect("packing has not begun");
    packing.supply(&Pure, &[]).expect("packing begins");
    let error = describe(&mut packing).expect_err("packing has begun");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);

    let mut packing = IncrementalPacker::new(file.len() as u64 - 1, Effort::Fast);
    describe(&mut packing).expect("packing has not begun");
    let error = packing.supply(&Pure, &[]).expect_err("a longer file");
    assert_eq!(error.kind(), ErrorKind::Malformed);
}

/// Returns a safetensors file of byte tensors.
fn checkpoint(tensors: &[(&str, &[u8])]) -> Vec<u8> {
    let mut entries = Vec::new();
    let mut data = Vec::new();
    for (name, bytes) in tensors {
        let (start, end) = (data.len(), data.len() + bytes.len());
        let len = bytes.len() / 2;
        entries.push(format!(
            r#""{name}":{{"dtype":"BF16","shape":[{len}],"data_offsets":[{start},{end}]}}"#
        ));
        data.extend_from_slice(bytes);
    }
    let header = format!("{{{}}}", entries.join(","));
    with_header(header, data)
}

#[test]
fn equal_tensors_are_stored_once() {
    let a = Rng(5).bf16_weights(40_000);
    let mut b = a.clone();
    b[30_001] ^= 1;
    let file = checkpoint(&[
        ("a", &a),
        ("b", &b),
        ("none", &[]),
        ("c", &a),
        ("d", &b),
        ("nil", &[]),
    ]);
    let (packed, packing) = piecewise(&file, Effort::Balanced).expect("it packs");
    assert!(packed == pack(&Pure, &file, Effort::Balanced).expect("it packs"));
    let shared: Vec<_> = packing
        .packed()
        .iter()
        .map(|t| (t.name, t.alias_of))
        .collect();
    assert_eq!(
        shared,
        [
            ("a", None),
            ("b", None),
            ("none", None),
            ("c", Some("a")),
            ("d", Some("b")),
            ("nil", Some("none")),
        ]
    );
    let stored: u64 = packing
        .packed()
        .iter()
        .filter(|t| t.alias_of.is_none())
        .map(|t| t.stored_len_bytes)
        .sum();
    assert!(stored < packed.len() as u64 && packing.packed()[0].len_bytes == 80_000);
}

#[test]
fn what_cannot_be_packed_is_refused() {
    let kind = |file: &[u8]| {
        let error = piecewise(file, Effort::Fast).expect_err("no safetensors file");
        (error.kind(), error.rule())
    };
    let of_no_length = [&[255; 8][..], b"{}"].concat();
    assert_eq!(kind(&of_no_length).1, Some(Rule::SafetensorsHeaderCap));
    assert_eq!(
        kind(&[200, 0, 0, 0, 0, 0, 0, 0, b'{']).1,
        Some(Rule::SafetensorsHeaderLength)
    );
    let packed = cases::containers()[0].packed();
    assert_eq!(kind(&packed).0, ErrorKind::InvalidInput);
}

#[test]
fn bytes_that_were_not_asked_for_are_refused() {
    let mut packing = IncrementalPacker::new(100, Effort::Fast);
    assert_eq!(packing.needs(), Some(0..100));
    let error = packing.supply(&Pure, &[0; 99]).expect_err("one is missing");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}
