//! Gauss files use memory in proportion to the size of the input.

use zstn_core::ErrorKind;
use zstn_core::limits::{GAUSS_ELEMENTS_PER_WORD, GAUSS_UNEARNED_ELEMENTS};
use zstn_core::pure::Pure;
use zstn_tests::allocator::{alone, peak_bytes};
use zstn_tests::cases::{self, Refusal, text};
use zstn_tests::foreign::{GAUSS_FOLDER, open_gauss, read_gauss};

#[test]
fn bad_files_are_refused_for_their_rule_in_bounded_memory() {
    let _alone = alone();
    let native = zstn::Engine::new(2).expect("two threads");
    let entries = cases::malformed("gauss-bad");
    assert!(entries.len() >= 28);
    for entry in entries {
        let name = text(&entry["name"]);
        let file = cases::named("gauss-bad", &entry);
        let refusal = Refusal::of(&entry).expect(&name);
        for (result, peak) in [
            peak_bytes(|| read_gauss(&Pure, &file)),
            peak_bytes(|| read_gauss(&native, &file)),
        ] {
            refusal.check(&name, result);
            assert!(peak < 1 << 20, "{name} held {peak} bytes");
        }
    }
}

#[test]
fn bit_flips_are_refused_or_keep_the_lengths() {
    let _alone = alone();
    for name in ["discrete", "legacy_v2", "names"] {
        let file = cases::read(GAUSS_FOLDER, &format!("{name}.gauss"));
        let mut flipped = file.clone();
        // Flip some bits of the index and some bits of the streams.
        let streams = open_gauss(&file, file.len()).expect(name).0.len_bytes;
        let streams = usize::try_from(streams).expect("in memory");
        let (mut inside, mut caught) = (0, 0);
        for bit in (0..streams * 8)
            .step_by(11)
            .chain((streams * 8..file.len() * 8).step_by(7))
        {
            flipped[bit / 8] ^= 1 << (bit % 8);
            let (result, peak) = peak_bytes(|| read_gauss(&Pure, &flipped));
            assert!(peak < 128 << 20, "{name} bit {bit} held {peak} bytes");
            if let Ok(tensors) = &result {
                for (tensor, bytes) in tensors {
                    assert_eq!(bytes.len() as u64, tensor.len_bytes(), "{name} bit {bit}");
                }
            }
            if bit >= streams * 8 {
                inside += 1;
                caught += usize::from(result.is_err());
            }
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
        // The format has no checksum; damage is detected if the coder does not end
        // empty.
        assert!(
            caught * 2 > inside,
            "{name}: only {caught} of {inside} noticed"
        );
    }
}

#[test]
fn a_promise_without_streams_takes_no_memory() {
    let _alone = alone();
    // 65535 empty shards of a hundred million elements each.
    let mut file = b"GAUSS004\x01\0\0\0\0\0\0\0\x01\0w\x02".to_vec();
    file.extend_from_slice(&0xFFFFu32.to_le_bytes());
    file.extend_from_slice(&100_000_000u32.to_le_bytes());
    file.extend_from_slice(&[0, 0xFF, 0xFF, 1, 0, 0, 0]);
    for _ in 0..0xFFFF {
        file.push(2);
        for float in [0.5f64, 0.5, 0.0, 0.0, 1.0, 1.0] {
            file.extend_from_slice(&float.to_le_bytes());
        }
        file.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    let (result, peak) = peak_bytes(|| read_gauss(&Pure, &file));
    assert_eq!(result.expect_err("nothing there").kind(), ErrorKind::Limit);
    assert!(peak < 64 << 20, "held {peak} bytes");
    // Within the limit, the remaining elements come from an exhausted coder.
    let mut one = file[..35 + 61].to_vec();
    one[20..24].copy_from_slice(&3u32.to_le_bytes());
    one[24..28].copy_from_slice(&5u32.to_le_bytes());
    one[29..35].copy_from_slice(&[1, 0, 0, 0, 0, 0]);
    let read = read_gauss(&Pure, &one).expect("legal");
    assert_eq!(read[0].1, (-32767f32).to_le_bytes().repeat(15));
}

/// Returns a file of `tensors` tensors of `elements` elements each, named t0, t1 and so
/// on, whose streams are empty.
fn without_streams(tensors: u32, elements: u32) -> Vec<u8> {
    let mut file = b"GAUSS004".to_vec();
    file.extend_from_slice(&tensors.to_le_bytes());
    file.extend_from_slice(&[0; 4]);
    for number in 0..tensors {
        let name = format!("t{number}");
        file.extend_from_slice(&[u8::try_from(name.len()).expect("short"), 0]);
        file.extend_from_slice(name.as_bytes());
        file.push(1);
        file.extend_from_slice(&elements.to_le_bytes());
        // A float64 tensor in one shard with two components.
        file.extend_from_slice(&[3, 1, 0, 0, 0, 0, 0, 2]);
        for float in [0.5f64, 0.5, 0.0, 0.0, 1.0, 1.0] {
            file.extend_from_slice(&float.to_le_bytes());
        }
        file.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    file
}

#[test]
fn unearned_elements_are_few_in_a_whole_file() {
    let _alone = alone();
    // A shard without words may have 116 elements of its own.
    let free = 2 * GAUSS_ELEMENTS_PER_WORD;
    let most = GAUSS_UNEARNED_ELEMENTS + free;
    let most = u32::try_from(most).expect("few");
    let (result, peak) = peak_bytes(|| read_gauss(&Pure, &without_streams(1, most)));
    assert_eq!(result.expect("at the limit")[0].1.len(), 8 * most as usize);
    assert!(peak < 24 << 20, "held {peak} bytes");

    let over = [
        (without_streams(1, most + 1), "t0"),
        // After one tensor, the remaining allowance is too small for the second; after
        // many small ones, it is too small for the last.
        (without_streams(2, most - 50), "t1"),
        (without_streams(5000, most / 1000), "t1125"),
    ];
    for (file, name) in over {
        let (result, peak) = peak_bytes(|| open_gauss(&file, file.len()));
        let error = result.expect_err("over the limit");
        assert_eq!(error.kind(), ErrorKind::Limit, "{name}: {error}");
        assert_eq!(error.tensor_name(), Some(name), "{error}");
        assert!(
            peak < 8 * file.len() + (1 << 16),
            "{name} held {peak} bytes"
        );
    }
}
