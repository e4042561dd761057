//! Reads a file of any container through the C library as a C program does: with ranges
//! that the caller fetches, and with callbacks that may fail. The first bytes of the
//! input select the options.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_fuzz::c::{Choice, run};
use zstn_fuzz::with_and_without_checksums;

fuzz_target!(|input: &[u8]| {
    let Some((choice, file)) = input.split_first_chunk::<8>() else {
        return;
    };
    let choice = Choice::new(choice, file.len());
    with_and_without_checksums(|checksums_count| run(file, &choice, checksums_count));
});
zstn_fuzz::keep_lengths!();
