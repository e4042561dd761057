//! A frame that was replaced together with its checksum is detected only by the digest
//! of the decoded bytes.

use std::fs;
use std::path::Path;

use zstn::{Input, Reader, Verify};
use zstn_core::Rule;
use zstn_core::container::zstn::integrity::checksum;
use zstn_core::container::zstn::unpack;
use zstn_core::pure::Pure;

use super::section::{rule, section, with_records};
use super::{Disk, Memory, native, packed, read_all_with};

/// Returns the file with one bit of the frame of `w` changed and the checksum
/// recomputed.
fn replaced() -> Vec<u8> {
    let packed = packed();
    let reader = Reader::open(Input::source(Memory(packed.clone()))).expect("in order");
    let stored = reader.find("w").expect("there").parts[0].stored.clone();
    let frame =
        usize::try_from(stored.start).expect("small")..usize::try_from(stored.end).expect("small");
    let truth = reader.read("w").expect("in order").bytes;
    let (_, mut records) = section(&packed);
    let frames = records
        .iter()
        .position(|record| record.0 == "FRMS")
        .expect("there");
    // The search starts at the end, where planes are stored uncompressed.
    for at in frame.clone().rev() {
        let mut file = packed.clone();
        file[at] ^= 1;
        let sum = checksum([&file[frame.clone()]]).to_le_bytes();
        records[frames].1[..8].copy_from_slice(&sum);
        let file = with_records(&file, 1, &records);
        let read = read_all_with(&file, Verify::Stored);
        if read.is_ok_and(|tensors| tensors[0].bytes != truth) {
            return file;
        }
    }
    panic!("every bit of the frame makes it malformed");
}

#[test]
fn only_the_digest_detects_a_replaced_frame() {
    let (file, disk) = (replaced(), Disk::new());
    let digest = (Some(Rule::ZstnTensorDigest), Some("w".into()));
    assert_eq!(rule(read_all_with(&file, Verify::Full)), digest);
    let options = Reader::options().engine(&native());
    let by_default = options.open(Input::source(Memory(file.clone())));
    assert_eq!(rule(by_default.and_then(|reader| reader.read("w"))), digest);
    // Unpacking and verifying always compare digests.
    assert_eq!(rule(disk.unpack(&file)), digest);
    assert_eq!(rule(disk.verify(&file)), digest);
    assert_eq!(unpack(&Pure, &file).expect_err("replaced").rule(), digest.0);
    // The tests of the other languages read this vector.
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/zstn-verify/replaced-frame.zstn");
    if std::env::var_os("ZSTN_WRITE_DIGESTS").is_some() {
        fs::write(&path, &file).expect("the vector can be written");
    }
    assert!(
        fs::read(path).expect("the vector") == file,
        "the vector is another file"
    );
}

#[test]
fn without_checksums_the_digests_are_compared_in_any_case() {
    let file = replaced();
    let (_, mut records) = section(&file);
    records.retain(|record| record.0 != "FRMS");
    let file = with_records(&file, 1, &records);
    let digest = (Some(Rule::ZstnTensorDigest), Some("w".into()));
    for verify in [Verify::Stored, Verify::Full] {
        assert_eq!(rule(read_all_with(&file, verify)), digest);
    }
}

#[test]
fn every_flipped_bit_of_a_frame_is_refused_by_its_checksum() {
    let packed = packed();
    let truth = read_all_with(&packed, Verify::Stored).expect("in order");
    assert_eq!(truth.len(), 5);
    for bit in 0..packed.len() * 8 {
        let mut flipped = packed.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let read = read_all_with(&flipped, Verify::Stored);
        assert!(!read.is_ok_and(|tensors| tensors != truth), "bit {bit}");
    }
}
