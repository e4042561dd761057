//! Unpacks a ZSTN file with both engines, and compares it with its reader: every tensor
//! is where the restored file has it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_core::catalog::FileKind;
use zstn_core::container::zstn::unpack;
use zstn_core::pure::Pure;
use zstn_fuzz::{LIMIT_BYTES, NATIVE, agree, catalog, model, part, parts, speak};

fuzz_target!(|file: &[u8]| {
    let packed = match catalog(file) {
        Ok(packed) if packed.kind() == FileKind::Zstn => packed,
        Ok(_) => return,
        Err(error) => return speak(&error),
    };
    if packed.original_len_bytes() > LIMIT_BYTES {
        return;
    }
    let by_c = unpack(&*NATIVE, file);
    agree(&by_c, &unpack(&Pure, file));
    let (Ok(restored), Ok(packed)) = (by_c, model(file, None)) else {
        return;
    };
    // A file that violates the safetensors format may have been packed as a whole.
    let Ok(plain) = model(&restored, None) else {
        return;
    };
    for (number, tensor) in packed.tensors().iter().enumerate() {
        let read = packed.decode(&*NATIVE, number, &parts(tensor, &[file]), None);
        let read = read.expect("all of the file has been decoded");
        let Some(there) = plain
            .find(&tensor.name)
            .ok()
            .and_then(|n| plain.plain_part(n))
        else {
            panic!("{} is not in the restored file", tensor.name);
        };
        assert!(
            *read == *part(&restored, there.stored.clone()),
            "{}",
            tensor.name
        );
    }
});
zstn_fuzz::keep_lengths!();
