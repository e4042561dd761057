//! Flips every bit, and truncates at every length.

use zstn_core::container::zstn::unpack;
use zstn_core::pure::Pure;
use zstn_tests::tier::stepped;

use super::{Disk, packed, read_all};

#[test]
fn every_flipped_bit_is_refused() {
    let (packed, disk) = (packed(), Disk::new());
    let truth = read_all(&packed).expect("in order");
    assert!(truth.len() == 5 && packed.len() < 2500);
    assert!(disk.verify(&packed).expect("in order"));
    for bit in stepped(0..packed.len() * 8, 5) {
        let mut flipped = packed.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(unpack(&Pure, &flipped).is_err(), "bit {bit} in memory");
        assert!(disk.unpack(&flipped).is_err(), "bit {bit} unpacked");
        assert!(disk.verify(&flipped).is_err(), "bit {bit} verified");
        // A reader of tensors uses neither statistics nor block tables.
        let read = read_all(&flipped);
        assert!(
            !read.is_ok_and(|tensors| tensors != truth),
            "bit {bit} read"
        );
    }
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
