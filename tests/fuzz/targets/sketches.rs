//! Parses a sketch, writes it again, computes its signature, and estimates its size against
//! itself and another sketch.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_core::frame::Edition;
use zstn_core::pure::Pure;
use zstn_core::sketch::Sketch;
use zstn_fuzz::{NATIVE, pair, speak, with_and_without_checksums};

fuzz_target!(|input: &[u8]| {
    let (other, file) = pair(input).unwrap_or((&[], input));
    with_and_without_checksums(|_| {
        let sketch = match Sketch::parse(&Pure, file) {
            Ok(sketch) => sketch,
            Err(error) => return speak(&error),
        };
        let written = sketch.to_bytes(&*NATIVE);
        let again = Sketch::parse(&Pure, &written).expect("our own sketch");
        assert!(again == sketch);
        let _ = sketch.estimate_plain();
        let _ = sketch.signature();
        let _ = sketch.estimate_delta(&sketch, Edition::Extended);
        if let Ok(other) = Sketch::parse(&Pure, other) {
            let _ = sketch.estimate_delta(&other, Edition::Paired);
        }
    });
});
zstn_fuzz::keep_lengths!();
