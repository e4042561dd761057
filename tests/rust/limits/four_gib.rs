//! Lengths above 4 GiB, which a 32-bit `usize` cannot represent, are refused rather
//! than truncated. `cargo xtask platforms i686` runs these tests on a 32-bit target.

use zstn_core::container::zstn::unpack;
use zstn_core::frame::decompress;
use zstn_core::limits::FRAME_DECODED_BYTES;
use zstn_core::pure::Pure;
use zstn_core::{Error, ErrorKind, bytes};
use zstn_tests::allocator::{alone, peak_bytes};
use zstn_tests::cases;

/// Adds 2^32 to the first 64-bit integer in the first `within` bytes of `file` that
/// equals `value`. Truncated to 32 bits, the integer would be unchanged.
fn with_4_gib_more(file: &[u8], within: usize, value: u64) -> Option<Vec<u8>> {
    let mut file = file.to_vec();
    let end = within.min(file.len());
    let at = file[..end]
        .windows(8)
        .position(|window| window == value.to_le_bytes())?;
    file[at + 4] = 1;
    Some(file)
}

#[test]
fn frames_that_say_so_are_refused() {
    let _alone = alone();
    let mut refused = 0;
    for (name, case) in cases::frames() {
        if case.original_len < 256 {
            // Other fields could have the same small value.
            continue;
        }
        let frame = cases::read("z4ai", &format!("{name}.z4ai"));
        let Some(longer) = with_4_gib_more(&frame, 64, case.original_len) else {
            continue;
        };
        let len = longer.len();
        let (result, peak) = peak_bytes(|| decompress(&Pure, &longer, FRAME_DECODED_BYTES));
        assert!(
            result.is_err(),
            "{name}: {} bytes",
            result.map_or(0, |b| b.len())
        );
        assert!(peak < 64 << 20, "{name}: {peak} bytes for a frame of {len}");
        refused += 1;
    }
    assert!(refused > 100, "only {refused} frames");
}

#[test]
fn containers_that_say_so_are_refused() {
    let _alone = alone();
    let mut refused = 0;
    for case in cases::containers() {
        let packed = case.packed();
        let Some(layout) = &case.layout else { continue };
        for (field, value) in [("header", layout.header_len), ("data", layout.data_len)] {
            if value < 256 {
                continue;
            }
            let Some(longer) = with_4_gib_more(&packed, 22, value) else {
                continue;
            };
            let (result, peak) = peak_bytes(|| unpack(&Pure, &longer));
            assert!(result.is_err(), "{}: {field}", case.name);
            let most = 64 * packed.len() + (64 << 20);
            assert!(peak < most, "{}: {peak} bytes for {field}", case.name);
            refused += 1;
        }
    }
    assert!(refused > 15, "only {refused} containers");
}

#[test]
fn a_buffer_beyond_the_address_space_is_an_error() {
    let _alone = alone();
    let refusal = |result: Result<Vec<u8>, Error>| {
        let error = result.expect_err("no machine has this much");
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert!(
            error.to_string().contains("do not fit in memory"),
            "{error}"
        );
    };
    for len_bytes in [u64::MAX, 1 << 63, (1 << 63) - 1] {
        refusal(bytes::buffer(len_bytes));
        refusal(bytes::with_capacity(len_bytes));
        let mut used = vec![1, 2, 3];
        refusal(bytes::resize(&mut used, len_bytes).map(|()| Vec::new()));
        assert_eq!(used, [1, 2, 3], "a refusal changes nothing");
    }
    #[cfg(target_pointer_width = "32")]
    for len_bytes in [1 << 32, (1 << 32) + 16, 1 << 31, 3 << 30] {
        refusal(bytes::buffer(len_bytes));
        refusal(bytes::with_capacity(len_bytes));
    }
}
