//! Headers of safetensors files: the parser and the official one accept and refuse the same
//! headers, and return the same tensors. Tensors with more dimensions than any library
//! supports are refused by name, and packing accepts them like any others.

use proptest::prelude::*;
use safetensors::SafeTensors;
use zstn_core::container::foreign::ztensor::{self, SourceTensor};
use zstn_core::container::model_delta::{self, Base, ModelDelta};
use zstn_core::container::safetensors::{Header, header_len_bytes};
use zstn_core::container::zstn::{pack, unpack};
use zstn_core::dtype::Dtype;
use zstn_core::frame::select::Effort;
use zstn_core::limits::DIMENSIONS;
use zstn_core::pure::Pure;
use zstn_tests::checkpoints::{assert_dimensions_refused, open, with_dimensions};
use zstn_tests::{cases, with_header};

fn ours(file: &[u8]) -> Result<Header, zstn_core::Error> {
    let len = header_len_bytes(file, file.len() as u64)?;
    let end = 8 + usize::try_from(len).expect("inside the file");
    Header::parse(&file[8..end], (file.len() - end) as u64)
}

/// Panics if the two parsers disagree. Returns whether they accept the file.
fn agree(file: &[u8]) -> bool {
    match (ours(file), SafeTensors::deserialize(file)) {
        (Ok(ours), Ok(official)) => {
            assert_eq!(ours.tensors.len(), official.len());
            for tensor in &ours.tensors {
                let view = official.tensor(&tensor.name).expect("the same names");
                assert_eq!(format!("{}", view.dtype()), tensor.dtype.name());
                let shape: Vec<u64> = view.shape().iter().map(|&d| d as u64).collect();
                assert_eq!(shape, tensor.shape);
                assert_eq!(
                    view.data().len() as u64,
                    tensor.span.end - tensor.span.start
                );
            }
            true
        }
        (Err(_), Err(_)) => false,
        (ours, official) => panic!(
            "we say {:?}, the official reader {:?} to {}",
            ours.map(|h| h.tensors.len()),
            official.map(|o| o.len()),
            String::from_utf8_lossy(&file[..file.len().min(600)])
        ),
    }
}

fn file(header: &str, data_len: usize) -> Vec<u8> {
    let mut file = with_header(header, b"");
    file.resize(file.len() + data_len, 7);
    file
}

#[test]
fn every_original_of_the_vectors() {
    let mut accepted = 0;
    for case in cases::containers() {
        let original = case.original();
        let valid = agree(&original);
        assert_eq!(Some(valid), case.official.map(|o| o.valid), "{}", case.name);
        accepted += usize::from(valid);
    }
    assert!(accepted > 25);
}

/// The cases in docs/formats/z4ai-containers.md 1.2 and 1.3.
#[test]
fn the_dialect() {
    let deep = |levels: usize| {
        format!(
            r#"{{"a":{{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":{}{}}}}}"#,
            "[".repeat(levels),
            "]".repeat(levels)
        )
    };
    let accepted = [
        r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#.to_owned(),
        " \t\r\n{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}} \n".into(),
        r#"{"a":["U8",[4],[0,4]]}"#.into(),
        r#"{"a":{"dtype":{"U8":null},"shape":[4],"data_offsets":[0,4]}}"#.into(),
        r#"{"a":{"dtype":"\u0055\u0038","sh\u0061pe":[4],"data_offsets":[0,4]}}"#.into(),
        r#"{"__metadata__":null,"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#.into(),
        r#"{"__metadata__":{"k":"1","k":"2"},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#
            .into(),
        r#"{"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#
            .into(),
        r#"{"a":{"dtype":"F4","shape":[8],"data_offsets":[0,4]}}"#.into(),
        r#"{"":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#.into(),
        r#"{"z":{"dtype":"F32","shape":[0,4294967296,4294967296,4294967296],"data_offsets":[4,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#
            .into(),
        deep(100),
    ];
    for header in accepted {
        assert!(agree(&file(&header, 4)), "{header}");
    }
    let refused = [
        r#"{"__metadata__":{},"__metadata__":{}}"#.to_owned(),
        r#"{"__metadata__":["a"]}"#.into(),
        r#"{"__metadata__":{"a":1}}"#.into(),
        r#"{"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#.into(),
        r#"{"a":{"dtype":"U8","data_offsets":[0,4]}}"#.into(),
        r#"{"a":{"dtype":"u8","shape":[4],"data_offsets":[0,4]}}"#.into(),
        r#"{"a":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}}"#.into(),
        r#"{"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,4]}}"#.into(),
        r#"{"a":{"dtype":"U8","shape":["4"],"data_offsets":[0,4]}}"#.into(),
        r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4,4]}}"#.into(),
        r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0]}}"#.into(),
        r#"{"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,4]}}"#.into(),
        r#"{"a":{"dtype":"U8","shape":[4294967296,4294967296,4294967296,0],"data_offsets":[0,4]}}"#
            .into(),
        r#"{"a":{"dtype":"U8","shape":[2305843009213693952],"data_offsets":[0,4]}}"#.into(),
        r#"{"a":{"dtype":"F4","shape":[7],"data_offsets":[0,4]}}"#.into(),
        r#"{"a":{"dtype":"F6_E2M3","shape":[5],"data_offsets":[0,4]}}"#.into(),
        r#"{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#.into(),
        r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},}"#.into(),
        r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":"\ud800"}}"#.into(),
        r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":NaN}}"#.into(),
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}\0".into(),
        "\u{feff}{}".into(),
        r#"["a"]"#.into(),
        "".into(),
        deep(200),
    ];
    for header in refused {
        assert!(!agree(&file(&header, 4)), "{header}");
    }
    assert!(agree(&file("{}", 0)));
    for head in [0u64, 3, 100_000_001, 1 << 63, u64::MAX] {
        assert!(!agree(&head.to_le_bytes()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_headers(
        edits in proptest::collection::vec((any::<u16>(), 0usize..6, any::<u8>()), 1..4),
        data_len in 0usize..14,
    ) {
        let header = r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[2,2],"data_offsets":[4,12]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"e":{"dtype":"I64","shape":[0],"data_offsets":[12,12]}}"#;
        let mut bytes = header.as_bytes().to_vec();
        for (place, kind, byte) in edits {
            let at = usize::from(place) % bytes.len();
            match kind {
                0 => bytes[at] = byte,
                1 => { bytes.remove(at); }
                2 => bytes.insert(at, byte),
                3 => bytes[at] = b"0123456789{}[],:\"x "[usize::from(byte) % 19],
                4 => bytes.insert(at, b"0123456789{}[],:\"x "[usize::from(byte) % 19]),
                _ => { let end = bytes.len().min(at + usize::from(byte) % 30); let part = bytes[at..end].to_vec(); bytes.splice(at..at, part); }
            }
        }
        let mut file = (bytes.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(&bytes);
        file.resize(file.len() + data_len, 1);
        agree(&file);
        file.resize(8 + bytes.len() + 12, 1);
        agree(&file);
    }
}

/// Returns the file in every format that can contain it.
fn formats(dimensions: usize) -> Vec<Vec<u8>> {
    let file = with_dimensions(dimensions);
    let packed = pack(&Pure, &file, Effort::Fast).expect("packs");
    let mut target = file.clone();
    *target.last_mut().expect("a byte") ^= 1;
    let base = Base::parse(&file).expect("a base");
    let delta = model_delta::pack(&Pure, &target, &base, Effort::Fast).expect("a delta");
    let shape: Vec<u64> = [3].into_iter().chain([1; 1024]).take(dimensions).collect();
    let entry = SourceTensor::dense("deep", Dtype::U8, &shape);
    let ztensor = ztensor::write(&Pure, &[(entry, b"345")]).expect("a zTensor file");
    vec![file, packed, delta, ztensor]
}

#[test]
fn as_many_dimensions_as_any_library_has_are_read() {
    for file in formats(DIMENSIONS) {
        let catalog = open(file).expect("at the limit");
        let number = catalog.find("deep").expect("listed");
        assert_eq!(catalog.tensors()[number].shape.len(), DIMENSIONS);
    }
}

#[test]
fn more_are_refused_with_the_name_of_the_tensor() {
    for file in formats(DIMENSIONS + 1) {
        assert_dimensions_refused(&open(file).expect_err("over the limit"));
    }
}

#[test]
fn they_are_packed_tensor_by_tensor_all_the_same() {
    for dimensions in [DIMENSIONS + 1, 3000] {
        let file = with_dimensions(dimensions);
        let packed = pack(&Pure, &file, Effort::Balanced).expect("packs");
        assert_ne!(packed[5], 0, "not in a single frame");
        assert!(unpack(&Pure, &packed).expect("unpacks") == file);

        let base = Base::parse(&file).expect("a base");
        let delta = model_delta::pack(&Pure, &file, &base, Effort::Fast).expect("a delta");
        let delta = ModelDelta::parse(&delta).expect("a delta");
        assert!(delta.unpack(&Pure, &base).expect("unpacks") == file);
    }
}
