//! Damaged Gauss and zTensor files, and files that no package writes, are
//! refused for the rule that they break, in memory that the input justifies.

use zstn_core::bytes::part;
use zstn_core::container::foreign::ztensor::{
    self, SourceTensor, TensorLayout, ZTensorVersion, ZTensorWriter,
};
use zstn_core::dtype::Dtype;
use zstn_core::limits::{GAUSS_ELEMENTS_PER_WORD, GAUSS_UNEARNED_ELEMENTS};
use zstn_core::pure::Pure;
use zstn_core::{Error, ErrorKind};
use zstn_tests::allocator::{alone, peak_bytes};
use zstn_tests::archives::{self, Archive};
use zstn_tests::cases::{self, Refusal, text};
use zstn_tests::foreign::{
    GAUSS_FOLDER, manifest, open_gauss, open_in_trips, read_gauss, read_named, read_tensors, vector,
};
use zstn_tests::native;

#[test]
fn bad_gauss_files_are_refused_for_their_rule_in_bounded_memory() {
    let _alone = alone();
    let native = zstn::Engine::new(2).expect("two threads");
    let entries = cases::malformed("gauss-bad");
    assert!(entries.len() >= 28);
    for entry in entries {
        let name = text(&entry["name"]);
        let file = cases::named("gauss-bad", &entry);
        let refusal = Refusal::of(&entry).expect(&name);
        for (result, peak) in [
            peak_bytes(|| read_gauss(&Pure, &file)),
            peak_bytes(|| read_gauss(&native, &file)),
        ] {
            refusal.check(&name, result);
            assert!(peak < 1 << 20, "{name} held {peak} bytes");
        }
    }
}

#[test]
fn bit_flips_are_refused_or_keep_the_lengths() {
    let _alone = alone();
    for name in ["discrete", "legacy_v2", "names"] {
        let file = cases::read(GAUSS_FOLDER, &format!("{name}.gauss"));
        let mut flipped = file.clone();
        // Flip some bits of the index and some bits of the streams.
        let streams = open_gauss(&file, file.len()).expect(name).0.len_bytes;
        let streams = usize::try_from(streams).expect("in memory");
        let (mut inside, mut caught) = (0, 0);
        for bit in (0..streams * 8)
            .step_by(11)
            .chain((streams * 8..file.len() * 8).step_by(7))
        {
            flipped[bit / 8] ^= 1 << (bit % 8);
            let (result, peak) = peak_bytes(|| read_gauss(&Pure, &flipped));
            assert!(peak < 128 << 20, "{name} bit {bit} held {peak} bytes");
            if let Ok(tensors) = &result {
                for (tensor, bytes) in tensors {
                    assert_eq!(bytes.len() as u64, tensor.len_bytes(), "{name} bit {bit}");
                }
            }
            if bit >= streams * 8 {
                inside += 1;
                caught += usize::from(result.is_err());
            }
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
        // The format has no checksum; damage is detected if the coder does not end
        // empty.
        assert!(
            caught * 2 > inside,
            "{name}: only {caught} of {inside} noticed"
        );
    }
}

#[test]
fn a_promise_without_streams_takes_no_memory() {
    let _alone = alone();
    // 65535 empty shards of a hundred million elements each.
    let mut file = b"GAUSS004\x01\0\0\0\0\0\0\0\x01\0w\x02".to_vec();
    file.extend_from_slice(&0xFFFFu32.to_le_bytes());
    file.extend_from_slice(&100_000_000u32.to_le_bytes());
    file.extend_from_slice(&[0, 0xFF, 0xFF, 1, 0, 0, 0]);
    for _ in 0..0xFFFF {
        file.push(2);
        for float in [0.5f64, 0.5, 0.0, 0.0, 1.0, 1.0] {
            file.extend_from_slice(&float.to_le_bytes());
        }
        file.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    let (result, peak) = peak_bytes(|| read_gauss(&Pure, &file));
    assert_eq!(result.expect_err("nothing there").kind(), ErrorKind::Limit);
    assert!(peak < 64 << 20, "held {peak} bytes");
    // Within the limit, the remaining elements come from an exhausted coder.
    let mut one = file[..35 + 61].to_vec();
    one[20..24].copy_from_slice(&3u32.to_le_bytes());
    one[24..28].copy_from_slice(&5u32.to_le_bytes());
    one[29..35].copy_from_slice(&[1, 0, 0, 0, 0, 0]);
    let read = read_gauss(&Pure, &one).expect("legal");
    assert_eq!(read[0].1, (-32767f32).to_le_bytes().repeat(15));
}

/// Returns a file of `tensors` tensors of `elements` elements each, named t0, t1 and so
/// on, whose streams are empty.
fn without_streams(tensors: u32, elements: u32) -> Vec<u8> {
    let mut file = b"GAUSS004".to_vec();
    file.extend_from_slice(&tensors.to_le_bytes());
    file.extend_from_slice(&[0; 4]);
    for number in 0..tensors {
        let name = format!("t{number}");
        file.extend_from_slice(&[u8::try_from(name.len()).expect("short"), 0]);
        file.extend_from_slice(name.as_bytes());
        file.push(1);
        file.extend_from_slice(&elements.to_le_bytes());
        // A float64 tensor in one shard with two components.
        file.extend_from_slice(&[3, 1, 0, 0, 0, 0, 0, 2]);
        for float in [0.5f64, 0.5, 0.0, 0.0, 1.0, 1.0] {
            file.extend_from_slice(&float.to_le_bytes());
        }
        file.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    file
}

#[test]
fn unearned_elements_are_few_in_a_whole_file() {
    let _alone = alone();
    // A shard without words may have 116 elements of its own.
    let free = 2 * GAUSS_ELEMENTS_PER_WORD;
    let most = GAUSS_UNEARNED_ELEMENTS + free;
    let most = u32::try_from(most).expect("few");
    let (result, peak) = peak_bytes(|| read_gauss(&Pure, &without_streams(1, most)));
    assert_eq!(result.expect("at the limit")[0].1.len(), 8 * most as usize);
    assert!(peak < 24 << 20, "held {peak} bytes");

    let over = [
        (without_streams(1, most + 1), "t0"),
        // After one tensor, the remaining allowance is too small for the second; after
        // many small ones, it is too small for the last.
        (without_streams(2, most - 50), "t1"),
        (without_streams(5000, most / 1000), "t1125"),
    ];
    for (file, name) in over {
        let (result, peak) = peak_bytes(|| open_gauss(&file, file.len()));
        let error = result.expect_err("over the limit");
        assert_eq!(error.kind(), ErrorKind::Limit, "{name}: {error}");
        assert_eq!(error.tensor_name(), Some(name), "{error}");
        assert!(
            peak < 8 * file.len() + (1 << 16),
            "{name} held {peak} bytes"
        );
    }
}

/// Runs `work`, checks that it takes little memory, and returns its result.
fn measured<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let (result, peak) = peak_bytes(work);
    assert!(peak < 64 << 20, "{name} held {peak} bytes");
    result
}

#[test]
fn bad_ztensor_files_are_refused_for_their_rule_in_bounded_memory() {
    let _alone = alone();
    let native = native();
    let entries = cases::malformed("ztensor-bad");
    assert!(entries.len() >= 25);
    for entry in entries {
        let name = text(&entry["file"]);
        let file = cases::named("ztensor-bad", &entry);
        let refusal = Refusal::of(&entry).expect(&name);
        for result in [
            measured(&name, || read_tensors(&native, &file)),
            measured(&name, || read_tensors(&Pure, &file)),
        ] {
            refusal.check(&name, result);
        }
    }
}

#[test]
fn bad_gguf_files_are_refused_for_their_rule_in_bounded_memory() {
    let _alone = alone();
    for entry in cases::malformed("gguf-bad") {
        let name = text(&entry["file"]);
        let file = cases::named("gguf-bad", &entry);
        let result = measured(&name, || read_tensors(&Pure, &file));
        Refusal::of_opened(&entry).check(&name, result);
    }
}

#[test]
fn bad_archives_are_refused_for_their_rule_in_bounded_memory() {
    let _alone = alone();
    for folder in ["npz-bad", "pytorch-bad"] {
        for entry in cases::malformed(folder) {
            let name = text(&entry["file"]);
            let file = cases::named(folder, &entry);
            let result = measured(&name, || open_in_trips(&file).map(drop));
            if let Err(error) = result {
                Refusal::of_opened(&entry).check::<()>(&name, Err(error));
            }
        }
    }
}

#[test]
fn pickles_take_memory_and_time_that_their_length_justifies() {
    let _alone = alone();
    let open = |pickle: &[u8]| {
        let file = Archive::default().member("a/data.pkl", pickle).finish();
        let (result, peak) = peak_bytes(|| open_in_trips(&file).map(drop));
        let len = pickle.len().max(1 << 20);
        assert!(peak < 160 * len, "{peak} bytes for {len}");
        result
    };
    let refused = |pickle: &[u8]| {
        let error = open(pickle).expect_err("too much");
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    };
    // One list of 200,000 pairs becomes 200,000 dicts.
    let pairs = b"K\x01K\x02\x86".repeat(200_000);
    let dicts = b"ccollections\nOrderedDict\nh\0\x85R".repeat(200_000);
    refused(&[b"\x80\x02]q\0(", &pairs[..], b"e0(", &dicts, b"t."].concat());
    // Ten million values on the stack.
    let values = [&b"N"[..], &b"2".repeat(10_000_000), b"."].concat();
    refused(&values);
    // A long key in front of 200,000 tensors that are not there.
    let key = archives::text(&"k".repeat(60_000));
    let class = b"ctorch._utils\n_rebuild_x\n)Rq\0";
    let pairs: Vec<u8> = (0..200_000u32)
        .flat_map(|i| [b"J", &i.to_le_bytes()[..], b"h\0"].concat())
        .collect();
    let pickle = [
        b"\x80\x02}",
        &key[..],
        b"}",
        b"q\x01(N",
        class,
        &pairs,
        b"u",
        b"s.",
    ]
    .concat();
    refused(&pickle);
    // A million lists in each other.
    let deep = [
        &b"\x80\x02"[..],
        &b"]".repeat(1_000_000),
        &b"a".repeat(999_999),
        b".",
    ]
    .concat();
    let _ = open(&deep);
    // 90,000 tensors of a class with a long name that is not known.
    let class = [&b"ctorch._utils\n_rebuild_"[..], &[1; 900], b"\n)R"].concat();
    let inner = [&b"q\0("[..], &b"h\0".repeat(300), b"tq\0("].concat();
    let outer = [&b"h\0".repeat(300)[..], b"t."].concat();
    let _ = open(&[b"\x80\x02", &class[..], &inner, &outer].concat());
    // 2,000 storages with one key of a megabyte, which has to be unescaped.
    let id = [
        &b"(X\x07\0\0\0storagectorch\nFloatStorage\nV\\u0041"[..],
        &b"k".repeat(1 << 20),
        b"\nNK\x01tq\0",
    ];
    let storages = b"h\0Q0".repeat(2000);
    refused(&[b"\x80\x02", &id.concat()[..], &storages, b"."].concat());
    // 100 references to an object of a class that is not known, with 200,000 entries.
    let object = [
        &b"ctorch._utils\n_rebuild_x\n)R("[..],
        &b"N".repeat(200_000),
        b"eq\0(",
    ];
    let outer = [&b"h\0".repeat(100)[..], b"t."].concat();
    refused(&[b"\x80\x02", &object.concat()[..], &outer].concat());
}

#[test]
fn bad_files_of_walked_formats_are_refused_in_bounded_memory() {
    let _alone = alone();
    for folder in [
        "onnx-bad",
        "msgpack-bad",
        "tflite-bad",
        "hdf5-bad",
        "keras-bad",
        "tar-bad",
    ] {
        for entry in cases::malformed(folder) {
            let name = text(&entry["file"]);
            let file = cases::named(folder, &entry);
            let result = measured(&name, || read_named(&name, &file));
            let is_external = name == "external-missing.onnx";
            assert_eq!(result.is_ok(), is_external, "{name}");
        }
    }
}

/// Returns a file with one byte tensor whose blob need not match the other fields.
fn forged(shape: &[u64], layout: TensorLayout, blob: &[u8]) -> Vec<u8> {
    let (mut writer, magic) = ZTensorWriter::new();
    let entry = SourceTensor {
        layout,
        ..SourceTensor::dense("t", Dtype::U8, shape)
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
    measured("forged", || read_tensors(&Pure, file)).expect_err("forged")
}

#[test]
fn sparse_tensors_are_made_dense_within_reason() {
    let _alone = alone();
    // Expanding one value to 16 MiB is accepted; expanding it to a tebibyte is not.
    let record = [words(&[3]), vec![7]].concat();
    let dense = read_tensors(&Pure, &forged(&[1 << 24], TensorLayout::PackedCoo, &record));
    let dense = dense.expect("small").remove(0);
    assert_eq!((dense.len(), dense[3]), (1 << 24, 7));
    assert_eq!(dense.iter().filter(|&&byte| byte != 0).count(), 1);
    let error = refusal(&forged(&[1 << 40], TensorLayout::PackedCoo, &record));
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let error = refusal(&forged(&[1 << 62], TensorLayout::Dense, &record));
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
}

#[test]
fn sparse_tensors_out_of_order_are_refused() {
    let _alone = alone();
    let csr = |pointers: &[u64], columns: &[u64]| {
        let values = vec![9; columns.len()];
        let blob = [words(pointers), words(columns), values].concat();
        forged(&[2, 4], TensorLayout::PackedCsr, &blob)
    };
    let read =
        read_tensors(&Pure, &csr(&[0, 1, 3], &[1, 3, 0])).expect("unsorted columns are fine");
    assert_eq!(read[0], [0, 9, 0, 0, 9, 0, 0, 9]);
    for bad in [
        csr(&[0, 2, 1], &[0]),
        csr(&[1, 1, 1], &[0]),
        csr(&[0, 1, 2], &[4, 0]),
        csr(&[0, 2, 2], &[1, 1]),
        csr(&[0, 1, 4], &[1, 2, 3]),
        csr(&[0, 1, u64::MAX], &[1, 2, 3]),
        csr(&[0, 1], &[]),
        forged(&[8], TensorLayout::PackedCsr, &words(&[0, 0])),
        forged(&[], TensorLayout::PackedCoo, &[9]),
        forged(&[8], TensorLayout::PackedCoo, &words(&[1, 2])),
        forged(
            &[2, 4],
            TensorLayout::PackedCoo,
            &[words(&[2, 0]), vec![9]].concat(),
        ),
        forged(
            &[8],
            TensorLayout::PackedCoo,
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
    let _alone = alone();
    let entry = SourceTensor::dense("flags", Dtype::Bool, &[4]);
    let mut file = ztensor::write(&Pure, &[(entry, &[0, 1, 1, 1][..])]).expect("writable");
    let written = file.windows(4).position(|bytes| bytes == [0, 1, 1, 1]);
    let at = written.expect("the elements");
    // zstn refuses to write such values, but other programs have written them.
    file[at + 2..at + 4].copy_from_slice(&[2, 255]);
    assert_eq!(
        read_tensors(&Pure, &file).expect("readable"),
        [[0, 1, 1, 1]]
    );
}

#[test]
fn two_tensors_of_one_name_are_refused() {
    let _alone = alone();
    let entry = |name| SourceTensor::dense(name, Dtype::U8, &[1]);
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
    let _alone = alone();
    for (case, version) in [
        ("v01_py011_empty.zt", ZTensorVersion::V0_1),
        ("v10_py100.zt", ZTensorVersion::V1_0),
        ("v11_py111.zt", ZTensorVersion::V1_1),
        ("v12_py123.zt", ZTensorVersion::V1_1),
        ("v21_py212_raw.zt", ZTensorVersion::V2),
    ] {
        assert_eq!(manifest(&vector(case)).expect(case).version, version);
    }
}

#[test]
fn large_manifests_open_in_three_round_trips() {
    let _alone = alone();
    let names: Vec<String> = (0..3000).map(|n| format!("layer.{n}")).collect();
    let tensors: Vec<_> = names
        .iter()
        .map(|name| (SourceTensor::dense(name, Dtype::U8, &[1]), &[5][..]))
        .collect();
    let file = ztensor::write(&Pure, &tensors).expect("writable");
    let (catalog, trips) = open_in_trips(&file).expect("readable");
    assert_eq!((catalog.tensors().len(), trips), (3000, 3));
}

#[test]
fn parts_of_sparse_tensors_can_be_read_alone() {
    let _alone = alone();
    let file = vector("v21_py212_sparse.zt");
    let (catalog, _) = open_in_trips(&file).expect("a vector");
    let number = catalog.find("csr").expect("listed");
    let tensor = catalog.ztensor_tensor(number).expect("a zTensor file");
    assert_eq!(tensor.layout, TensorLayout::Csr);
    let pointers = tensor.part("indptr").expect("of CSR");
    let stored = part(&file, pointers.stored.clone());
    let bytes = pointers.decode(&Pure, stored, 20).expect("five of u32");
    let last = bytes.last_chunk().copied().map(u32::from_le_bytes);
    assert_eq!(last, Some(10));
}
