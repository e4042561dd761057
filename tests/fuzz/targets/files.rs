//! Opens a file of any container by ranges, decodes every tensor with both engines, and
//! compares rows with the whole tensor.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_fuzz::{model, read, speak, with_and_without_checksums};

fuzz_target!(|file: &[u8]| {
    with_and_without_checksums(|checksums_count| match model(file, None) {
        Ok(model) => read(&model, &[file], checksums_count),
        Err(error) => speak(&error),
    });
});
zstn_fuzz::keep_lengths!();
