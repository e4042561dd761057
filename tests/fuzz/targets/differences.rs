//! Decodes a difference frame (`ZXD1`) with its base, as a whole by both engines, and
//! in ranges.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_core::frame::difference::{Difference, Directory};
use zstn_core::pure::Pure;
use zstn_fuzz::{LIMIT_BYTES, NATIVE, agree, pair, part, speak, with_and_without_checksums};

fuzz_target!(|input: &[u8]| {
    let Some((base, frame)) = pair(input) else {
        return;
    };
    with_and_without_checksums(|_| {
        let difference = match Difference::parse(frame) {
            Ok(difference) if difference.len_bytes() <= LIMIT_BYTES => difference,
            Ok(_) => return,
            Err(error) => return speak(&error),
        };
        let whole = difference.decode(&*NATIVE, base);
        agree(&whole, &difference.decode(&Pure, base));
        let Ok(whole) = whole else { return };
        let head = part(frame, 0..difference.head_len_bytes());
        let directory = Directory::parse(head, whole.len() as u64).expect("the head was parsed");
        let len = whole.len() as u64;
        for span in [
            0..len,
            0..len / 2,
            len / 3..len,
            len / 2..len / 2 + 1.min(len),
        ] {
            if span.end > len {
                continue;
            }
            let plan = directory.plan(span.clone());
            let (stored, held) = (part(frame, plan.stored()), part(base, plan.base()));
            let rows = directory.decode(&Pure, &plan, stored, held);
            assert!(rows.expect("the whole has been decoded") == part(&whole, span));
        }
    });
});
zstn_fuzz::keep_lengths!();
