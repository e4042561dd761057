//! zTensor: files of the released packages decode correctly, files written by zstn
//! equal them byte for byte, and malformed ones are refused.

use std::borrow::Cow;

use zstn_core::ErrorKind;
use zstn_core::bytes::part;
use zstn_core::catalog::FileKind;
use zstn_core::container::foreign::ztensor::{
    self, ByteOrder, DigestKind, Field, PartCoding, PartDigest, PartStorage, SourceTensor,
    TensorLayout, ZTensorWriter,
};
use zstn_core::dtype::Dtype;
use zstn_core::engine::{Engine, PackEngine, ZstdCoding};
use zstn_core::pure::Pure;
use zstn_tests::foreign::{manifest, open_in_trips, read_tensors, vector};
use zstn_tests::tier::is_all;
use zstn_tests::{cases, native, sha256};

fn decode_to_their_truth(engine: &impl Engine) {
    let mut decoded = 0;
    for case in cases::ztensor() {
        let (name, file) = (&case.file, vector(&case.file));
        let (catalog, trips) =
            open_in_trips(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(catalog.kind(), FileKind::ZTensor);
        assert!(trips <= 2, "{name}: {trips} round trips");
        assert_eq!(catalog.tensors().len(), case.tensors.len(), "{name}");
        let truth = vector(&case.truth);
        let truth = safetensors::SafeTensors::deserialize(&truth).expect("a safetensors file");
        assert_eq!(truth.len(), case.tensors.len(), "{name}");
        for told in &case.tensors {
            let number = catalog.find(&told.name).expect("listed");
            let tensor = &catalog.tensors()[number];
            let truth = truth.tensor(&told.name).expect("in the truth");
            let shape: Vec<u64> = truth.shape().iter().map(|&d| d as u64).collect();
            assert_eq!(tensor.shape, shape, "{name}/{}", told.name);
            let dtype = format!("{:?}", truth.dtype());
            assert_eq!(tensor.dtype.name(), dtype, "{name}/{}", told.name);
            let bytes = catalog
                .decode(engine, number, part(&file, tensor.stored.clone()))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(*bytes == *truth.data(), "{name}/{}", told.name);
            assert_eq!(sha256(&bytes), told.sha256, "{name}/{}", told.name);
            decoded += 1;
        }
    }
    assert!(decoded > 100, "only {decoded} tensors");
}

#[test]
fn vectors_decode_with_c_zstd() {
    decode_to_their_truth(&native());
}

#[test]
fn vectors_decode_with_rust_alone() {
    decode_to_their_truth(&Pure);
}

#[test]
fn plain_tensors_are_not_copied() {
    let file = vector("v01_py011_basic.zt");
    let (catalog, _) = open_in_trips(&file).expect("a vector");
    for (number, tensor) in catalog.tensors().iter().enumerate() {
        let stored = part(&file, tensor.stored.clone());
        let bytes = catalog.decode(&Pure, number, stored).expect("plain");
        assert!(matches!(bytes, Cow::Borrowed(same) if same.as_ptr() == stored.as_ptr()));
    }
}

/// Returns the entry that a writer would produce for a tensor of version 0.1.
fn entry(tensor: &ztensor::ManifestTensor) -> SourceTensor<'_> {
    let stored = &tensor.parts[0];
    SourceTensor {
        name: &tensor.name,
        dtype: tensor.element().dtype(),
        shape: &tensor.shape,
        layout: tensor.layout.clone(),
        storage: match stored.coding {
            PartCoding::Raw(order) => PartStorage::Raw(order),
            _ => PartStorage::Zstd(ZstdCoding::Search(3)),
        },
        checksum: stored.checksum.as_ref().map(|checksum| {
            assert!(matches!(checksum.digest, PartDigest::Crc32c(_)));
            DigestKind::Crc32c
        }),
        fields: &tensor.fields,
    }
}

#[test]
fn files_of_the_old_packages_are_written_again_byte_for_byte() {
    let mut files = 0;
    for case in cases::ztensor() {
        if case.format_version != "0.1" {
            continue;
        }
        let file = vector(&case.file);
        let (mut writer, magic) = ZTensorWriter::new();
        let mut again = magic.to_vec();
        for tensor in &manifest(&file).expect("a vector").tensors {
            let (entry, blob) = (entry(tensor), &tensor.parts[0]);
            let stored = part(&file, blob.stored.clone());
            if let PartStorage::Raw(_) = entry.storage {
                let len_bytes = stored.len() as u64;
                let elements = blob.decode(&Pure, stored, len_bytes).expect("plain");
                let encoded = entry.encode(&Pure, &elements).expect("fits");
                assert!(*encoded == *stored, "{}/{}", case.file, tensor.name);
            }
            // Compressed bytes come from another zstd and are copied unchanged.
            again.extend_from_slice(writer.add(&entry, stored).expect("writable"));
            again.extend_from_slice(stored);
        }
        again.extend_from_slice(&writer.finish());
        assert!(again == file, "{} comes out different", case.file);
        files += 1;
    }
    assert_eq!(files, 10);
}

#[test]
fn custom_keys_are_kept() {
    let file = vector("v01_rs010_custom.zt");
    let manifest = manifest(&file).expect("a vector");
    for tensor in &manifest.tensors {
        let names: Vec<_> = tensor.fields.iter().map(Field::name).collect();
        assert_eq!(
            names,
            [
                "answer", "big", "blob", "flag", "nested", "note", "nothing", "pi", "ratio",
                "tenth"
            ]
        );
        let value = |name: &str| tensor.fields.iter().find(|field| field.name() == name);
        assert_eq!(value("answer").map(Field::cbor), Some(&[0x38, 41][..]));
        assert_eq!(value("note").and_then(Field::text), Some("café 🦀"));
        assert_eq!(value("big").and_then(Field::text), None);
    }
}

fn round_trip(engine: &impl PackEngine) {
    let numbers: Vec<u8> = (0..6000u32).flat_map(|n| (n / 3).to_le_bytes()).collect();
    let note = [Field::from_text("note", "of the test")];
    let mut tensors = Vec::new();
    let storages = [
        PartStorage::Raw(ByteOrder::Little),
        PartStorage::Raw(ByteOrder::Big),
        PartStorage::Zstd(ZstdCoding::Search(3)),
    ];
    let checksums = [None, Some(DigestKind::Crc32c), Some(DigestKind::Sha256)];
    let cases: Vec<_> = storages
        .iter()
        .flat_map(|&storage| checksums.map(|checksum| (storage, checksum)))
        .map(|case| (format!("{case:?}"), case))
        .collect();
    let shapes: [(&[u64], Dtype, usize); 4] = [
        (&[6, 1000], Dtype::I32, 24000),
        (&[5], Dtype::Bf16, 10),
        (&[], Dtype::F64, 8),
        (&[3, 0], Dtype::U8, 0),
    ];
    let names: Vec<String> = cases
        .iter()
        .flat_map(|(name, _)| (0..shapes.len()).map(move |n| format!("{name} {n}")))
        .collect();
    let all = cases
        .iter()
        .flat_map(|(_, case)| shapes.map(|shape| (case, shape)));
    for (name, ((storage, checksum), (shape, dtype, len))) in names.iter().zip(all) {
        let entry = SourceTensor {
            storage: *storage,
            checksum: *checksum,
            fields: &note,
            ..SourceTensor::dense(name, dtype, shape)
        };
        tensors.push((entry, &numbers[..len]));
    }
    let file = ztensor::write(engine, &tensors).expect("writable");
    for read in [read_tensors(&Pure, &file), read_tensors(&native(), &file)] {
        let read = read.expect("readable");
        assert_eq!(read.len(), tensors.len());
        for ((entry, bytes), read) in tensors.iter().zip(read) {
            assert!(*bytes == read, "{}", entry.name);
        }
    }
    for tensor in manifest(&file).expect("readable").tensors {
        assert_eq!(tensor.fields, note);
        assert_eq!(tensor.parts[0].stored.start % 64, 0);
    }
}

#[test]
fn what_is_written_is_read_again() {
    round_trip(&native());
    round_trip(&Pure);
    let empty = ztensor::write(&Pure, &[]).expect("writable");
    assert_eq!(empty, vector("v01_py011_empty.zt"));
}

#[test]
fn what_the_format_cannot_say_is_not_written() {
    let bytes = [0; 8];
    let refused = |entries: &[(SourceTensor, &[u8])]| {
        let error = ztensor::write(&Pure, entries).expect_err("cannot be written");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    };
    let entry = SourceTensor::dense("a", Dtype::U8, &[8]);
    refused(&[(entry.clone(), &bytes[..]), (entry.clone(), &bytes[..])]);
    refused(&[(entry.clone(), &bytes[..7])]);
    refused(&[(SourceTensor::dense("a", Dtype::F8E4M3, &[8]), &bytes[..])]);
    refused(&[(SourceTensor::dense("a", Dtype::U8, &[u64::MAX, 2, 0]), &[])]);
    let layout = TensorLayout::Csr;
    refused(&[(
        SourceTensor {
            layout,
            ..entry.clone()
        },
        &bytes[..],
    )]);
    for fields in [
        vec![Field::from_text("shape", "of things")],
        vec![Field::from_text("k", "1"), Field::from_text("k", "2")],
    ] {
        let fields = &fields[..];
        refused(&[(
            SourceTensor {
                fields,
                ..entry.clone()
            },
            &bytes[..],
        )]);
    }
    assert!(Field::new("two", vec![0, 0]).is_err());
}

#[test]
fn truth_values_that_readers_would_change_are_not_written() {
    let entry = SourceTensor::dense("mask", Dtype::Bool, &[3]);
    let fine = ztensor::write(&Pure, &[(entry.clone(), &[0, 1, 1][..])]);
    let fine = read_tensors(&Pure, &fine.expect("writable")).expect("readable");
    assert_eq!(fine, [[0, 1, 1]]);
    let error = ztensor::write(&Pure, &[(entry, &[0, 7, 1][..])]).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(error.tensor_name(), Some("mask"));
}

#[test]
fn rows_of_plain_tensors_are_fetched_alone() {
    let numbers: Vec<u8> = (0..4000u32).flat_map(u32::to_le_bytes).collect();
    let dense = SourceTensor::dense("w", Dtype::U32, &[100, 40]);
    let big = PartStorage::Raw(ByteOrder::Big);
    let zstd = PartStorage::Zstd(ZstdCoding::Search(3));
    let checksum = Some(DigestKind::Crc32c);
    for (entry, is_alone) in [
        (dense.clone(), true),
        (
            SourceTensor {
                storage: big,
                ..dense.clone()
            },
            false,
        ),
        (
            SourceTensor {
                storage: zstd,
                ..dense.clone()
            },
            false,
        ),
        (
            SourceTensor {
                checksum,
                ..dense.clone()
            },
            false,
        ),
    ] {
        let file = ztensor::write(&Pure, &[(entry, &numbers)]).expect("writable");
        let (catalog, _) = open_in_trips(&file).expect("readable");
        let plan = catalog.plan(0, 1600..4800, None).expect("inside");
        assert_eq!(plan.is_some(), is_alone);
        let Some(plan) = plan else { continue };
        let ranges = plan.ranges();
        assert_eq!(
            ranges
                .iter()
                .map(|range| range.end - range.start)
                .sum::<u64>(),
            3200
        );
        let fetched: Vec<&[u8]> = ranges.iter().map(|r| part(&file, r.clone())).collect();
        let rows = plan.decode(&Pure, &fetched, None).expect("plain bytes");
        assert!(rows == numbers[1600..4800]);
    }
}

#[test]
fn every_truncation_is_refused() {
    for case in cases::ztensor() {
        let file = vector(&case.file);
        let step = 1 + file.len() / 3000;
        for len in (0..file.len()).step_by(step) {
            if len == 16 && file.starts_with(b"ZTEN0001\0\0\0\0\0\0\0\0") {
                // The magic and padding alone are a legacy encoding of a file without
                // tensors.
                assert!(read_tensors(&Pure, &file[..len]).expect("empty").is_empty());
                continue;
            }
            let error = read_tensors(&Pure, &file[..len]).expect_err("cut");
            assert_eq!(error.kind(), ErrorKind::Malformed, "{} at {len}", case.file);
        }
    }
}

/// Flips single bits: all of them in the full tier, every eleventh one in the small
/// tier, and only some in the padding.
fn for_every_flip(file: &[u8], mut check: impl FnMut(&[u8], usize)) {
    let mut flipped = file.to_vec();
    for byte in 0..file.len() {
        if file[byte] == 0 && !byte.is_multiple_of(997) {
            continue;
        }
        for bit in 0..8 {
            if !is_all() && !(byte * 8 + bit).is_multiple_of(11) {
                continue;
            }
            flipped[byte] ^= 1 << bit;
            check(&flipped, byte);
            flipped[byte] ^= 1 << bit;
        }
    }
}

#[test]
fn no_bit_flip_is_taken_for_something_it_is_not() {
    let engine = native();
    for case in cases::ztensor() {
        if case
            .tensors
            .iter()
            .any(|tensor| tensor.shape.iter().product::<u64>() > 10_000)
        {
            continue;
        }
        let file = vector(&case.file);
        let truth = read_tensors(&Pure, &file).expect("a vector");
        let is_hashed = case.format_version == "2";
        for_every_flip(&file, |flipped, byte| {
            let read = match byte % 2 {
                0 => read_tensors(&Pure, flipped),
                _ => read_tensors(&engine, flipped),
            };
            // Hashes cover all of version 2. In other versions, a flip may go
            // undetected, but the tensors have their listed lengths, which `read_all`
            // has checked.
            if is_hashed && let Ok(read) = read {
                assert!(read == truth, "{} at {byte}", case.file);
            }
        });
    }
}

#[test]
fn checksums_catch_every_flip_in_their_tensor() {
    let file = vector("v01_rs010_raw_crc.zt");
    let (catalog, _) = open_in_trips(&file).expect("a vector");
    let number = catalog.find("a").expect("has a checksum");
    let stored = part(&file, catalog.tensors()[number].stored.clone());
    for_every_flip(stored, |flipped, byte| {
        let error = catalog.decode(&Pure, number, flipped).expect_err("flipped");
        let rule = error.rule().map(|rule| rule.code());
        assert_eq!(rule, Some("ztensor.checksum"), "byte {byte}");
    });
}
