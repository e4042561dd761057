//! Every bit flipped, every length cut.

use zstn_core::container::zstn::unpack;
use zstn_core::pure::Pure;
use zstn_tests::tier::{is_all, stepped};

use super::{Disk, original, packed, read_all};

#[test]
fn every_flipped_bit_is_refused_or_changes_nothing() {
    let (original, packed, disk) = (original(), packed(), Disk::new());
    let truth = read_all(&packed).expect("in order");
    assert!(truth.len() == 5 && packed.len() < 2500);
    assert!(disk.verify(&packed).expect("in order"));
    let mut harmless = 0;
    // The magic of the section follows the frames: all its bits are among the sample.
    for bit in stepped(0..packed.len() * 8, 5) {
        let mut flipped = packed.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let in_memory = unpack(&Pure, &flipped);
        harmless += usize::from(in_memory.is_ok());
        let is_right = in_memory.is_ok();
        assert!(
            !in_memory.is_ok_and(|bytes| bytes != original),
            "bit {bit} in memory"
        );
        let unpacked = disk.unpack(&flipped);
        assert!(
            !unpacked.is_ok_and(|bytes| bytes != original),
            "bit {bit} unpacked"
        );
        let read = read_all(&flipped);
        assert!(
            !read.is_ok_and(|tensors| tensors != truth),
            "bit {bit} read"
        );
        // It can compare the file only with itself.
        let verified = disk.verify(&flipped);
        assert_eq!(verified.is_ok(), is_right, "bit {bit} verified");
    }
    // Without its magic the section is ignored.
    let expected = if is_all() { 64..80 } else { 12..16 };
    assert!(
        expected.contains(&harmless),
        "{harmless} flips change nothing"
    );
    let left: Vec<_> = std::fs::read_dir(disk.folder.path())
        .expect("there")
        .collect();
    assert_eq!(left.len(), 1, "refused files leave nothing behind");
}

#[test]
fn every_truncation_is_refused() {
    let (packed, disk) = (packed(), Disk::new());
    for len in 1..packed.len() {
        let cut = &packed[..len];
        assert!(read_all(cut).is_err(), "{len} bytes read");
        assert!(disk.unpack(cut).is_err(), "{len} bytes unpacked");
        assert!(disk.verify(cut).is_err(), "{len} bytes verified");
    }
}
