//! Compares estimated sizes with the sizes after packing.

use super::*;

/// Largest accepted error of an estimate, in percent of the packed size.
const TOLERANCE_PERCENT: u64 = 25;
/// Largest accepted error in percent of the original size, for pairs with few changes:
/// the samples of such a small model contain few of them or none.
const FEW_CHANGES_PERCENT: u64 = 2;

#[test]
fn estimates_are_near_the_outcome() {
    let base = Weights::new(1);
    for dtype in ["BF16", "F16", "F32"] {
        for (share, size) in [
            (0.02, 0.01),
            (0.2, 0.01),
            (1.0, 0.001),
            (1.0, 0.02),
            (1.0, 0.2),
        ] {
            let folder = Folder::new();
            folder.write("models/base.safetensors", &base.file(dtype));
            folder.write("new.safetensors", &base.tuned(2, share, size).file(dtype));
            let choice = folder.choose("new.safetensors");
            let pair = format!("{dtype}, {share} of the weights by {size}");
            let near = |packed: u64, expected: u64| {
                let most = packed * TOLERANCE_PERCENT / 100;
                let most = most.max(choice.original_bytes * FEW_CHANGES_PERCENT / 100);
                assert!(
                    packed.abs_diff(expected) <= most,
                    "{pair}: {packed}, {expected}"
                );
            };
            let plain = PackOptions::default();
            let plain = zstn::pack(&job(), folder.at("new.safetensors"), folder.at("p"), &plain);
            near(plain.unwrap().packed_bytes(), choice.plain.packed_bytes);
            let packed = folder.pack("new.safetensors", "d", &choice);
            match &choice.base {
                Some(base) => near(packed, base.estimate.packed_bytes),
                // No base is chosen only if nearly all bits differ.
                None => assert!(size > 0.1, "{pair}"),
            }
        }
    }
}

#[test]
fn extended_frames_are_expected_to_be_smaller() {
    let folder = Folder::new();
    let base = Weights::new(1);
    folder.write("models/base.safetensors", &base.file("BF16"));
    folder.write("new.safetensors", &base.tuned(2, 1.0, 0.02).file("BF16"));
    let plain = folder.choose("new.safetensors").base.unwrap().estimate;
    let options = FamilyOptions::default().extended(true);
    let extended = folder.choose_with("new.safetensors", &options).unwrap();
    let extended = extended.base.unwrap().estimate;
    assert!(extended.packed_bytes < plain.packed_bytes * 19 / 20);
    assert_eq!(extended.differing_tensors, plain.differing_tensors);
}

#[test]
fn unchanged_tensors_cost_next_to_nothing() {
    let folder = Folder::new();
    let base = Weights::new(1);
    let mut frozen = base.tuned(2, 1.0, 0.05);
    frozen.0[..5].clone_from_slice(&base.0[..5]);
    folder.write("models/base.safetensors", &base.file("BF16"));
    folder.write("new.safetensors", &frozen.file("BF16"));
    let choice = folder.choose("new.safetensors");
    let estimate = choice.base.as_ref().unwrap().estimate;
    assert_eq!((estimate.equal_tensors, estimate.differing_tensors), (5, 1));
    let packed = folder.pack("new.safetensors", "d", &choice);
    assert!(packed.abs_diff(estimate.packed_bytes) < packed / 5);
}

#[test]
fn sketches_are_small() {
    let folder = Folder::new();
    for (dtype, most) in [("BF16", 400), ("F32", 900)] {
        folder.write("m.safetensors", &Weights::new(1).file(dtype));
        let sketch = sketch_of(&folder.at("m.safetensors"));
        let len = sketch.to_bytes(&engine()).len();
        assert!(len / sketch.tensors().len() < most, "{dtype}: {len}");
    }
}
