//! Packs arbitrary bytes as a checkpoint. Packing in memory and incremental packing
//! produce the same file, which both engines restore.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_core::container::zstn::{ContainerOptions, IncrementalPacker, pack, unpack};
use zstn_core::frame::select::Effort;
use zstn_core::pure::Pure;
use zstn_fuzz::{NATIVE, part, speak};

const EFFORTS: [Effort; 3] = [Effort::Fast, Effort::Balanced, Effort::Max];

fuzz_target!(|input: &[u8]| {
    let Some((&choice, file)) = input.split_first() else {
        return;
    };
    let effort = EFFORTS[usize::from(choice & 3) % EFFORTS.len()];
    let options = || {
        ContainerOptions::new(effort)
            .allow_truncated(choice & 4 != 0)
            .integrity(choice & 8 == 0)
            .statistics(choice & 16 == 0)
    };
    let whole = pack(&Pure, file, options());
    let mut packer = IncrementalPacker::new(file.len() as u64, options());
    let mut packed = Vec::new();
    while let Some(range) = packer.needs() {
        match packer.supply(&Pure, part(file, range)) {
            Ok(bytes) => packed.extend(bytes),
            Err(error) => {
                assert!(whole.is_err(), "only piece by piece: {error}");
                return speak(&error);
            }
        }
    }
    let packed = [packer.prefix(), &packed].concat();
    assert!(packed == whole.expect("it packs piece by piece"));
    assert!(unpack(&*NATIVE, &packed).expect("our own file") == file);
    assert!(unpack(&Pure, &packed).expect("our own file") == file);
});
zstn_fuzz::keep_lengths!();
