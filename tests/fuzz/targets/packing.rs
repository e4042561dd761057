//! Packs arbitrary bytes as a checkpoint. Packing in memory and incremental packing
//! produce the same file, unless it is not a safetensors file, and both engines restore it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_core::catalog::is_other_format;
use zstn_core::container::zstn::{ContainerOptions, IncrementalPacker, pack, unpack};
use zstn_core::frame::select::Effort;
use zstn_core::limits::HEAD_LEN_BYTES;
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
    // Only incremental packing describes files of other formats with virtual headers.
    let head = part(file, 0..HEAD_LEN_BYTES.min(file.len() as u64));
    let is_other = is_other_format("", head, file.len() as u64);
    let mut packer = IncrementalPacker::new(file.len() as u64, options());
    let mut packed = Vec::new();
    while let Some(range) = packer.needs() {
        match packer.supply(&Pure, part(file, range)) {
            Ok(bytes) => packed.extend(bytes),
            Err(error) => {
                assert!(is_other || whole.is_err(), "only piece by piece: {error}");
                return speak(&error);
            }
        }
    }
    let packed = [packer.prefix(), &packed].concat();
    assert!(is_other || packed == whole.expect("it packs piece by piece"));
    assert!(unpack(&*NATIVE, &packed).expect("our own file") == file);
    assert!(unpack(&Pure, &packed).expect("our own file") == file);
});
zstn_fuzz::keep_lengths!();
