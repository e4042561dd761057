//! A model presented as the safetensors file from which it was packed, or as an
//! equivalent one.

use std::ops::Range;
use std::path::Path;

use zstn::{Engine, Reader};
use zstn_core::bytes::{index, part};
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_core::model::{Piece, Unpacked};
use zstn_tests::foreign::{BAD, model_folder};
use zstn_tests::{cases, with_header};

fn open(path: impl AsRef<Path>) -> Reader {
    Reader::open(path.as_ref()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the bytes of `range`, assembled from the pieces.
fn read(reader: &Reader, file: &Unpacked, range: Range<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in file.pieces(range) {
        match piece {
            Piece::Head(range) => out.extend_from_slice(&file.head()[range]),
            Piece::Tensor { number, bytes } => {
                let name = &reader.model().tensors()[number].name;
                let tensor = reader.read(name).unwrap_or_else(|e| panic!("{e}")).bytes;
                out.extend_from_slice(part(&tensor, bytes));
            }
        }
    }
    out
}

fn whole(reader: &Reader) -> (Vec<u8>, Unpacked) {
    let file = reader.model().unpacked().expect("a file");
    let bytes = read(reader, &file, 0..file.len_bytes());
    assert_eq!(bytes.len() as u64, file.len_bytes(), "{}", reader.name());
    (bytes, file)
}

#[test]
fn every_container_is_the_file_that_was_packed() {
    let mut same = 0;
    for case in cases::containers() {
        let official = case.official.as_ref().is_some_and(|o| o.valid);
        if !official || case.layout.as_ref().is_none_or(|l| l.contiguous == 0) {
            continue;
        }
        let original = case.original();
        let paths = ["zstn", "safetensors"].map(|kind| format!("{}.{kind}", case.name));
        for reader in paths.map(|name| open(cases::path("zstn").join(name))) {
            let (bytes, file) = whole(&reader);
            assert!(file.is_original(), "{}", reader.name());
            assert!(bytes == original, "{} comes back different", reader.name());
            assert_eq!(reader.model().original_len_bytes(), file.len_bytes());
            same += 1;
        }
    }
    assert!(same >= 60, "only {same}");
}

#[test]
fn every_delta_is_its_target() {
    let mut same = 0;
    for case in cases::deltas("zstn", "z4dm") {
        let file =
            |role: &str| cases::path("zstn").join(case[role]["file"].as_str().expect("a name"));
        let valid = |role: &str| case[role]["valid"] == true;
        if !valid("official_base") || !valid("official_target") {
            continue;
        }
        let reader = open(file("container")).with_base(open(file("base")));
        let (bytes, unpacked) = whole(&reader.expect("its base"));
        assert!(unpacked.is_original());
        let target = std::fs::read(file("target")).expect("the target");
        assert!(bytes == target, "{} comes back different", case["name"]);
        same += 1;
    }
    assert!(same >= 12, "only {same}");
}

/// Valid headers with unusual formatting are restored exactly.
#[test]
fn odd_headers_come_back_as_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("odd.zstn");
    let entries = [
        r#""b":{"shape":[4],"dtype":"U8","data_offsets":[2,6]}"#,
        r#""a":{"data_offsets":[ 0 ,2],"dtype":"U8","shape":[2]}"#,
        r#""empty\u0041":{"dtype":"F32","shape":[0],"data_offsets":[2,2]}"#,
    ];
    for (front, between, behind) in [
        ("{", ",", "}"),
        ("{\n\t", " ,\r\n", "}\n\n"),
        (r#"{"__metadata__":{"z":"1","a":"\u00e4"},"#, ",", "}   "),
        ("{", r#","__metadata__":{},"#, "}           "),
    ] {
        let mut json = format!("{front}{}{between}{}", entries[0], entries[1]);
        // A key must not occur twice.
        let comma = if between.contains("meta") {
            ","
        } else {
            between
        };
        json.push_str(&format!("{comma}{}{behind}", entries[2]));
        let original = with_header(json, b"abwxyz");
        let engine = Engine::new(1).expect("a thread");
        let packed = pack(&engine, &original, Effort::Fast).expect("packs");
        std::fs::write(&path, packed).expect("written");
        let (bytes, file) = whole(&open(&path));
        assert!(file.is_original());
        assert_eq!(
            String::from_utf8_lossy(&bytes),
            String::from_utf8_lossy(&original)
        );
    }
}

#[test]
fn every_range_of_a_file_has_its_bytes() {
    let reader = open(cases::path("zstn").join("empty_tensors.zstn"));
    let original = cases::read("zstn", "empty_tensors.safetensors");
    let file = reader.model().unpacked().expect("a file");
    let len = file.len_bytes();
    let head = file.head().len() as u64;
    let edges = (head - 2..len + 3).chain([0, 1, 7, 8, 9]);
    let edges: Vec<u64> = edges.step_by(if len > 400 { 5 } else { 1 }).collect();
    let tensors: Vec<Vec<u8>> = reader
        .names()
        .map(|name| reader.read(name).expect("read").bytes)
        .collect();
    for &start in &edges {
        for &end in &edges {
            let mut bytes = Vec::new();
            for piece in file.pieces(start..end) {
                let next = match piece {
                    Piece::Head(range) => &file.head()[range],
                    Piece::Tensor { number, bytes } => part(&tensors[number], bytes),
                };
                assert!(!next.is_empty(), "{start}..{end}: nothing is no piece");
                bytes.extend_from_slice(next);
            }
            let within = index(start.min(len))..index(end.clamp(start.min(len), len));
            assert!(bytes == original[within], "{start}..{end}");
        }
    }
}

/// For files without a safetensors header, one is generated that the official reader
/// accepts.
#[test]
fn other_files_could_be_one() {
    let gauss = cases::entries("gauss", "vectors").into_iter();
    let gauss =
        gauss.map(|v| cases::path("gauss").join(format!("{}.gauss", cases::text(&v["name"]))));
    let ztensor = cases::entries("ztensor", "files").into_iter();
    let ztensor = ztensor.map(|v| cases::path("ztensor").join(cases::text(&v["file"])));
    let mut read = 0;
    for path in gauss.chain(ztensor) {
        let reader = open(&path);
        let Ok(file) = reader.model().unpacked() else {
            continue;
        };
        assert!(!file.is_original(), "{}", reader.name());
        if reader.names().any(|name| reader.read(name).is_err()) {
            continue;
        }
        let (bytes, _) = whole(&reader);
        let official = safetensors::SafeTensors::deserialize(&bytes);
        let official = official.unwrap_or_else(|error| panic!("{}: {error}", reader.name()));
        for name in reader.names() {
            let truth = reader.read(name).expect("read").bytes;
            assert!(official.tensor(name).expect("listed").data() == truth);
        }
        read += 1;
    }
    assert!(read > 20, "only {read}");
}

#[test]
fn shards_are_one_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let shard = |name: &str, bytes: &[u8]| {
        let file = zstn_tests::checkpoint(&[(name, "U8", bytes)]);
        std::fs::write(folder.path().join(format!("{name}.safetensors")), file).expect("written");
    };
    shard("b", b"second");
    shard("a", b"first");
    let index = r#"{"weight_map":{"a":"a.safetensors","b":"b.safetensors"}}"#;
    let path = folder.path().join("model.safetensors.index.json");
    std::fs::write(&path, index).expect("written");
    let (bytes, file) = whole(&open(&path));
    assert!(!file.is_original());
    let official = safetensors::SafeTensors::deserialize(&bytes).expect("safetensors");
    assert_eq!(official.tensor("a").expect("listed").data(), b"first");
    assert_eq!(official.tensor("b").expect("listed").data(), b"second");
}

#[test]
fn a_weight_that_cannot_be_had_is_named() {
    let mut refused = 0;
    for vector in cases::entries(BAD, "vectors") {
        let name = cases::text(&vector["name"]);
        let folder = model_folder(BAD, &name);
        let place = folder.path().display().to_string();
        let Ok(reader) = Reader::open(place.as_str()) else {
            continue;
        };
        let Some((weight, _)) = reader.model().refused().next() else {
            continue;
        };
        let error = reader.model().unpacked().expect_err(&name);
        assert_eq!(error.tensor_name(), Some(weight));
        refused += 1;
    }
    assert!(refused > 3, "only {refused}");
}
