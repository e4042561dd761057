//! zTensor: files of the released packages decode to their truth, ours are
//! theirs byte for byte, and bad ones are refused.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use zstn::Native;
use zstn_core::bytes::part;
use zstn_core::catalog::{Catalog, Kind, Opening};
use zstn_core::container::ztensor::{
    self, ByteOrder, Coding, Digest, DigestKind, Entry, FOOTER_BYTES, Field, Footer, Layout,
    Manifest, Storage, Version, Writer,
};
use zstn_core::dtype::Dtype;
use zstn_core::engine::{Engine, PackEngine, Pure, ZstdCoding};
use zstn_core::{Error, ErrorKind, Result};
use zstn_tests::cases;
use zstn_tests::memory::{Counting, peak_bytes};
use zstn_tests::sha256;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn native() -> Native {
    Native::new(2).expect("two threads")
}

fn vector(name: &str) -> Vec<u8> {
    cases::read("ztensor", name)
}

/// Opens a file as a reader over HTTP does; also tells the round trips.
fn open(file: &[u8]) -> Result<(Catalog, usize)> {
    let len = file.len() as u64;
    let head = part(file, 0..Opening::head_len_bytes(len)).to_vec();
    let mut opening = Opening::new(len, head)?;
    let mut trips = 1;
    loop {
        let needs = opening.needs()?;
        if needs.is_empty() {
            return Ok((opening.finish(&Pure)?, trips));
        }
        trips += 1;
        assert!(trips < 5, "the opening goes on and on");
        for range in needs {
            opening.supply(range.start, part(file, range))?;
        }
    }
}

/// Every tensor of a file, in its order.
fn read_all(engine: &impl Engine, file: &[u8]) -> Result<Vec<Vec<u8>>> {
    let (catalog, _) = open(file)?;
    let tensors = catalog.tensors().iter().enumerate();
    tensors
        .map(|(number, tensor)| {
            let stored = part(file, tensor.stored.clone());
            let bytes = catalog.decode(engine, number, stored)?.into_owned();
            assert_eq!(bytes.len() as u64, tensor.len_bytes());
            Ok(bytes)
        })
        .collect()
}

fn manifest(file: &[u8]) -> Result<Manifest> {
    let len = file.len() as u64;
    let tail = part(file, len.saturating_sub(FOOTER_BYTES)..len);
    let footer = Footer::parse(file, tail, len)?;
    Manifest::parse(part(file, footer.manifest.clone()), &footer)
}

fn decode_to_their_truth(engine: &impl Engine) {
    let mut decoded = 0;
    for case in cases::ztensor() {
        let (name, file) = (&case.file, vector(&case.file));
        let (catalog, trips) = open(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(catalog.kind(), Kind::ZTensor);
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
    let (catalog, _) = open(&file).expect("a vector");
    for (number, tensor) in catalog.tensors().iter().enumerate() {
        let stored = part(&file, tensor.stored.clone());
        let bytes = catalog.decode(&Pure, number, stored).expect("plain");
        assert!(matches!(bytes, Cow::Borrowed(same) if same.as_ptr() == stored.as_ptr()));
    }
}

/// What each file breaks.
const BROKEN_RULES: [(&str, &str); 25] = [
    ("short_magic.zt", "ztensor.magic"),
    ("wrong_magic.zt", "ztensor.magic"),
    ("magic_only.zt", "ztensor.footer"),
    ("size_past_start.zt", "ztensor.footer"),
    ("size_u64_max.zt", "ztensor.footer"),
    ("size_too_small.zt", "ztensor.cbor"),
    ("root_is_map.zt", "ztensor.field"),
    ("missing_dtype.zt", "ztensor.field"),
    ("missing_offset.zt", "ztensor.field"),
    ("unknown_dtype.zt", "ztensor.dtype"),
    ("unknown_encoding.zt", "ztensor.encoding"),
    ("unaligned_offset.zt", "ztensor.place"),
    ("offset_zero.zt", "ztensor.place"),
    ("blob_past_eof.zt", "ztensor.place"),
    ("raw_size_mismatch.zt", "ztensor.length"),
    ("crc_mismatch_raw.zt", "ztensor.checksum"),
    ("crc_bad_hex.zt", "ztensor.checksum_text"),
    ("zstd_bad_frame.zt", "zstd.frame"),
    ("zstd_wrong_length.zt", "zstd.content_size"),
    ("negative_dim.zt", "ztensor.field"),
    ("shape_overflow.zt", "ztensor.overflow"),
    ("trailing_cbor.zt", "ztensor.cbor"),
    ("v1_footer_magic.zt", "ztensor.footer"),
    ("v2_manifest_hash.zt", "ztensor.manifest_hash"),
    ("v2_truncated.zt", "ztensor.footer"),
];

#[test]
fn bad_files_are_refused_in_bounded_memory_and_time() {
    let native = native();
    let listed = cases::bad_ztensor();
    assert_eq!(listed.len(), BROKEN_RULES.len());
    for (name, rule) in BROKEN_RULES {
        assert!(listed.iter().any(|listed| listed == name), "{name}");
        let file = cases::read("ztensor-bad", name);
        for result in [
            measured(name, || read_all(&native, &file)),
            measured(name, || read_all(&Pure, &file)),
        ] {
            let error = result.expect_err(name);
            assert_eq!(error.kind(), ErrorKind::Malformed, "{name}: {error}");
            assert_eq!(
                error.rule().map(|r| r.code()),
                Some(rule),
                "{name}: {error}"
            );
        }
    }
}

fn measured<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let (result, peak) = peak_bytes(work);
    assert!(peak < 64 << 20, "{name} held {peak} bytes");
    assert!(started.elapsed() < Duration::from_secs(1), "{name}");
    result
}

#[test]
fn every_truncation_is_refused() {
    for case in cases::ztensor() {
        let file = vector(&case.file);
        let step = 1 + file.len() / 3000;
        for len in (0..file.len()).step_by(step) {
            if len == 16 && file.starts_with(b"ZTEN0001\0\0\0\0\0\0\0\0") {
                // The magic and padding: an old way to say "no tensors".
                assert!(read_all(&Pure, &file[..len]).expect("empty").is_empty());
                continue;
            }
            let error = read_all(&Pure, &file[..len]).expect_err("cut");
            assert_eq!(error.kind(), ErrorKind::Malformed, "{} at {len}", case.file);
        }
    }
}

/// Flips one bit after the other, of padding only some.
fn for_every_flip(file: &[u8], mut check: impl FnMut(&[u8], usize)) {
    let mut flipped = file.to_vec();
    for byte in 0..file.len() {
        if file[byte] == 0 && !byte.is_multiple_of(997) {
            continue;
        }
        for bit in 0..8 {
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
        let truth = read_all(&Pure, &file).expect("a vector");
        let is_hashed = case.format_version == "2";
        for_every_flip(&file, |flipped, byte| {
            let read = match byte % 2 {
                0 => read_all(&Pure, flipped),
                _ => read_all(&engine, flipped),
            };
            // Hashes cover all of version 2. In others a flip may go
            // unnoticed, but what is read is as long as the list says, which
            // `read_all` has looked at.
            if is_hashed && let Ok(read) = read {
                assert!(read == truth, "{} at {byte}", case.file);
            }
        });
    }
}

#[test]
fn checksums_catch_every_flip_in_their_tensor() {
    let file = vector("v01_rs010_raw_crc.zt");
    let (catalog, _) = open(&file).expect("a vector");
    let number = catalog.find("a").expect("has a checksum");
    let stored = part(&file, catalog.tensors()[number].stored.clone());
    for_every_flip(stored, |flipped, byte| {
        let error = catalog.decode(&Pure, number, flipped).expect_err("flipped");
        let rule = error.rule().map(|rule| rule.code());
        assert_eq!(rule, Some("ztensor.checksum"), "byte {byte}");
    });
}

/// The entry that would be written for a tensor of version 0.1.
fn entry(tensor: &ztensor::Tensor) -> Entry<'_> {
    let stored = &tensor.parts[0];
    Entry {
        name: &tensor.name,
        dtype: tensor.element().dtype(),
        shape: &tensor.shape,
        layout: tensor.layout.clone(),
        storage: match stored.coding {
            Coding::Raw(order) => Storage::Raw(order),
            _ => Storage::Zstd(ZstdCoding::Search(3)),
        },
        checksum: stored.checksum.as_ref().map(|checksum| {
            assert!(matches!(checksum.digest, Digest::Crc32c(_)));
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
        let (mut writer, magic) = Writer::new();
        let mut again = magic.to_vec();
        for tensor in &manifest(&file).expect("a vector").tensors {
            let (entry, blob) = (entry(tensor), &tensor.parts[0]);
            let stored = part(&file, blob.stored.clone());
            if let Storage::Raw(_) = entry.storage {
                let len_bytes = stored.len() as u64;
                let elements = blob.decode(&Pure, stored, len_bytes).expect("plain");
                let encoded = entry.encode(&Pure, &elements).expect("fits");
                assert!(*encoded == *stored, "{}/{}", case.file, tensor.name);
            }
            // Compressed bytes are those of another zstd: taken over as they are.
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
        Storage::Raw(ByteOrder::Little),
        Storage::Raw(ByteOrder::Big),
        Storage::Zstd(ZstdCoding::Search(3)),
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
        let entry = Entry {
            storage: *storage,
            checksum: *checksum,
            fields: &note,
            ..Entry::dense(name, dtype, shape)
        };
        tensors.push((entry, &numbers[..len]));
    }
    let file = ztensor::write(engine, &tensors).expect("writable");
    for read in [read_all(&Pure, &file), read_all(&native(), &file)] {
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
    let refused = |entries: &[(Entry, &[u8])]| {
        let error = ztensor::write(&Pure, entries).expect_err("cannot be written");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    };
    let entry = Entry::dense("a", Dtype::U8, &[8]);
    refused(&[(entry.clone(), &bytes[..]), (entry.clone(), &bytes[..])]);
    refused(&[(entry.clone(), &bytes[..7])]);
    refused(&[(Entry::dense("a", Dtype::F8E4M3, &[8]), &bytes[..])]);
    refused(&[(Entry::dense("a", Dtype::U8, &[u64::MAX, 2, 0]), &[])]);
    let layout = Layout::Csr;
    refused(&[(
        Entry {
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
            Entry {
                fields,
                ..entry.clone()
            },
            &bytes[..],
        )]);
    }
    assert!(Field::new("two", vec![0, 0]).is_err());
}

/// A file of one tensor of bytes, whose blob need not fit the rest.
fn forged(shape: &[u64], layout: Layout, blob: &[u8]) -> Vec<u8> {
    let (mut writer, magic) = Writer::new();
    let entry = Entry {
        layout,
        ..Entry::dense("t", Dtype::U8, shape)
    };
    let mut file = magic.to_vec();
    file.extend_from_slice(writer.add(&entry, blob).expect("nothing is checked here"));
    file.extend_from_slice(blob);
    file.extend_from_slice(&writer.finish());
    file
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn refusal(file: &[u8]) -> Error {
    measured("forged", || read_all(&Pure, file)).expect_err("forged")
}

#[test]
fn sparse_tensors_are_made_dense_within_reason() {
    // One value of 16 MiB is fine, of a tebibyte is not.
    let record = [words(&[3]), vec![7]].concat();
    let dense = read_all(&Pure, &forged(&[1 << 24], Layout::PackedCoo, &record));
    let dense = dense.expect("small").remove(0);
    assert_eq!((dense.len(), dense[3]), (1 << 24, 7));
    assert_eq!(dense.iter().filter(|&&byte| byte != 0).count(), 1);
    let error = refusal(&forged(&[1 << 40], Layout::PackedCoo, &record));
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let error = refusal(&forged(&[1 << 62], Layout::Dense, &record));
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
}

#[test]
fn sparse_tensors_out_of_order_are_refused() {
    let csr = |pointers: &[u64], columns: &[u64]| {
        let values = vec![9; columns.len()];
        let blob = [words(pointers), words(columns), values].concat();
        forged(&[2, 4], Layout::PackedCsr, &blob)
    };
    let read = read_all(&Pure, &csr(&[0, 1, 3], &[1, 3, 0])).expect("unsorted columns are fine");
    assert_eq!(read[0], [0, 9, 0, 0, 9, 0, 0, 9]);
    for bad in [
        csr(&[0, 2, 1], &[0]),
        csr(&[1, 1, 1], &[0]),
        csr(&[0, 1, 2], &[4, 0]),
        csr(&[0, 2, 2], &[1, 1]),
        csr(&[0, 1, 4], &[1, 2, 3]),
        csr(&[0, 1, u64::MAX], &[1, 2, 3]),
        csr(&[0, 1], &[]),
        forged(&[8], Layout::PackedCsr, &words(&[0, 0])),
        forged(&[], Layout::PackedCoo, &[9]),
        forged(&[8], Layout::PackedCoo, &words(&[1, 2])),
        forged(
            &[2, 4],
            Layout::PackedCoo,
            &[words(&[2, 0]), vec![9]].concat(),
        ),
        forged(
            &[8],
            Layout::PackedCoo,
            &[words(&[1]), vec![9], words(&[1]), vec![8]].concat(),
        ),
    ] {
        let error = refusal(&bad);
        let rule = error.rule().map(|rule| rule.code());
        assert_eq!(rule, Some("ztensor.sparse"), "{error}");
    }
}

#[test]
fn any_byte_but_zero_is_true_in_old_files() {
    let entry = Entry::dense("flags", Dtype::Bool, &[4]);
    let file = ztensor::write(&Pure, &[(entry, &[0, 1, 2, 255][..])]).expect("writable");
    assert_eq!(read_all(&Pure, &file).expect("readable"), [[0, 1, 1, 1]]);
}

#[test]
fn two_tensors_of_one_name_are_refused() {
    let entry = |name| Entry::dense(name, Dtype::U8, &[1]);
    let file = ztensor::write(&Pure, &[(entry("a"), &[1][..]), (entry("b"), &[2][..])]);
    let mut file = file.expect("writable");
    let map = file
        .windows(7)
        .rposition(|window| window == b"\xbf\x64name\x61");
    let name = &mut file[map.expect("the second map") + 7];
    assert_eq!(*name, b'b');
    *name = b'a';
    let rule = refusal(&file).rule().map(|rule| rule.code());
    assert_eq!(rule, Some("ztensor.name"));
}

#[test]
fn versions_are_told_apart() {
    for (case, version) in [
        ("v01_py011_empty.zt", Version::V0_1),
        ("v10_py100.zt", Version::V1_0),
        ("v11_py111.zt", Version::V1_1),
        ("v12_py123.zt", Version::V1_1),
        ("v21_py212_raw.zt", Version::V2),
    ] {
        assert_eq!(manifest(&vector(case)).expect(case).version, version);
    }
}

#[test]
fn large_manifests_open_in_three_round_trips() {
    let names: Vec<String> = (0..3000).map(|n| format!("layer.{n}")).collect();
    let tensors: Vec<_> = names
        .iter()
        .map(|name| (Entry::dense(name, Dtype::U8, &[1]), &[5][..]))
        .collect();
    let file = ztensor::write(&Pure, &tensors).expect("writable");
    let (catalog, trips) = open(&file).expect("readable");
    assert_eq!((catalog.tensors().len(), trips), (3000, 3));
}

#[test]
fn parts_of_sparse_tensors_can_be_read_alone() {
    let file = vector("v21_py212_sparse.zt");
    let (catalog, _) = open(&file).expect("a vector");
    let number = catalog.find("csr").expect("listed");
    let tensor = catalog.ztensor_tensor(number).expect("a zTensor file");
    assert_eq!(tensor.layout, Layout::Csr);
    let pointers = tensor.part("indptr").expect("of CSR");
    let stored = part(&file, pointers.stored.clone());
    let bytes = pointers.decode(&Pure, stored, 20).expect("five of u32");
    let last = bytes.last_chunk().copied().map(u32::from_le_bytes);
    assert_eq!(last, Some(10));
}
