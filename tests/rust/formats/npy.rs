//! NumPy arrays: files of numpy decode to their values, damaged ones are refused or
//! keep their length.

use serde::Deserialize;
use zstn_core::bytes::{index, part};
use zstn_core::catalog::FileKind;
use zstn_core::container::foreign::npy::{NpyArray, header_len_bytes};
use zstn_core::pure::Pure;
use zstn_tests::cases::{self, Refusal, text};
use zstn_tests::foreign::{open_in_trips, read_tensors};
use zstn_tests::sha256;

#[derive(Deserialize)]
struct Vector {
    file: String,
    stored: String,
    dtype: String,
    shape: Vec<u64>,
    /// SHA-256 of the values, little-endian and row-major.
    values_sha256: String,
}

fn vectors() -> Vec<(Vector, Vec<u8>)> {
    let entries = cases::entries("npy", "files").into_iter();
    let entries = entries.map(|entry| -> Vector { serde_json::from_value(entry).expect("fields") });
    entries
        .map(|vector| {
            let file = cases::read("npy", &vector.file);
            (vector, file)
        })
        .collect()
}

#[test]
fn vectors_decode_to_their_values() {
    assert!(vectors().len() >= 24);
    for (vector, file) in vectors() {
        let name = format!("{} ({})", vector.file, vector.stored);
        let (catalog, trips) = open_in_trips(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((catalog.kind(), trips), (FileKind::Npy, 1), "{name}");
        let [tensor] = catalog.tensors() else {
            panic!("{name}: {} tensors", catalog.tensors().len());
        };
        assert_eq!(tensor.name, "", "{name}");
        assert_eq!(tensor.dtype.name(), vector.dtype, "{name}");
        assert_eq!(tensor.shape, vector.shape, "{name}");
        let values = read_tensors(&Pure, &file).expect(&name).concat();
        assert_eq!(sha256(&values), vector.values_sha256, "{name}");
        // In row-major order, a part is a range of the file.
        let len = values.len() as u64;
        let span = len / 4..len - len / 4;
        if let Some(plan) = catalog.plan(0, span.clone(), None).expect("inside") {
            let ranges = plan.ranges().iter();
            let fetched: Vec<_> = ranges.map(|range| part(&file, range.clone())).collect();
            let decoded = plan.decode(&Pure, &fetched, None).expect(&name);
            assert!(decoded == part(&values, span), "{name}");
        } else {
            assert!(vector.file.starts_with("fortran") || len == 0, "{name}");
        }
    }
}

#[test]
fn malformed_files_are_refused_for_their_rule() {
    let entries = cases::malformed("npy-bad");
    assert!(entries.len() >= 20);
    for entry in entries {
        let name = text(&entry["file"]);
        let file = cases::named("npy-bad", &entry);
        let parsed = header_len_bytes(&file, file.len() as u64)
            .and_then(|end| NpyArray::parse(part(&file, 0..end), file.len() as u64));
        Refusal::of(&entry).expect("a rule").check(&name, parsed);
        Refusal::of_opened(&entry).check(&name, read_tensors(&Pure, &file));
    }
}

#[test]
fn damaged_files_are_refused_or_keep_their_length() {
    for name in ["fortran-3d.npy", "be-c8.npy", "version-3.npy"] {
        let mut file = cases::read("npy", name);
        for end in 0..file.len() {
            assert!(read_tensors(&Pure, &file[..end]).is_err(), "{name}: {end}");
        }
        let data = open_in_trips(&file).expect(name).0.tensors()[0]
            .stored
            .clone();
        let mut refused = 0;
        for at in 0..index(data.start) {
            for flip in [1, 4, 0x80, 0xff] {
                file[at] ^= flip;
                match read_tensors(&Pure, &file) {
                    Ok(read) => assert!(read.concat().len() as u64 <= data.end - data.start + 2),
                    Err(_) => refused += 1,
                }
                file[at] ^= flip;
            }
        }
        assert!(refused > 100, "{name}: {refused} refusals");
    }
}

/// Returns an array of version 1.
fn array(descr: &str, is_fortran: bool, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let order = if is_fortran { "True" } else { "False" };
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let dict = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({sizes}), }}\n");
    let len = u16::try_from(dict.len()).expect("short").to_le_bytes();
    [b"\x93NUMPY\x01\x00", &len[..], dict.as_bytes(), data].concat()
}

#[test]
fn the_bytes_of_an_element_stay_together_in_fortran_order() {
    // Element (i, j) of a 2 × 3 array has the bytes 3i + j and 100 + 3i + j.
    let element = |k: u8| [k, 100 + k];
    let by_rows = [0, 1, 2, 3, 4, 5].map(element).concat();
    let by_columns = [0, 3, 1, 4, 2, 5].map(element).concat();
    for descr in ["<V2", "<u2"] {
        for (shape, stored) in [
            (&[2, 3][..], &by_columns),
            (&[2, 1, 3, 1], &by_columns),
            (&[6], &by_rows),
            (&[6, 1], &by_rows),
        ] {
            let file = array(descr, true, shape, stored);
            let values = read_tensors(&Pure, &file).expect(descr).concat();
            assert_eq!(values, by_rows, "{descr} {shape:?}");
        }
    }
    assert!(read_tensors(&Pure, &array("ZV2", false, &[6], &by_rows)).is_err());
    // Floats of 8 bits have no name in the file either.
    for descr in ["|V1", "<V1"] {
        let file = array(descr, true, &[2, 3], &[0, 3, 1, 4, 2, 5]);
        let values = read_tensors(&Pure, &file).expect(descr).concat();
        assert_eq!(values, [0, 1, 2, 3, 4, 5], "{descr}");
    }
    assert!(read_tensors(&Pure, &array("|V3", false, &[2], &[0; 6])).is_err());
}
