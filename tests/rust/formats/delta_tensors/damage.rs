//! Damaged deltas and wrong bases.

use zstn_core::ErrorKind;
use zstn_core::container::model_delta::ModelDelta;
use zstn_core::pure::Pure;
use zstn_tests::cases::Refusal;
use zstn_tests::rng::Rng;
use zstn_tests::{cases, checkpoint};

use super::{opened, pair, with_trailer, without_trailer};

#[test]
fn damage_to_the_places_of_a_walk_ends_in_a_refusal() {
    let (base, target) = pair(300, 80_000);
    let delta_with_trailer = with_trailer(&base, &target);
    let delta = without_trailer(&delta_with_trailer);
    let records = ModelDelta::parse(&delta_with_trailer).unwrap();
    let mut rng = Rng(9);
    let mut refused = 0;
    for record in records.records().iter().step_by(10) {
        let end = usize::try_from(record.payload.start).unwrap();
        for _ in 0..8 {
            let mut flipped = delta.clone();
            let bit =
                usize::try_from(rng.next_u64() % (19 + record.name.len() as u64) * 8).unwrap();
            flipped[end - 1 - bit / 8] ^= 1 << (rng.next_u64() % 8);
            refused += usize::from(opened(&flipped).is_err());
        }
        // The file is truncated.
        assert!(opened(&delta[..end]).is_err());
    }
    assert!(refused >= 200, "{refused}");
    // Forged numbers, such as more records than the header lists.
    let count_at = 29 + records.header().len();
    for (at, bytes) in [
        (count_at, &u32::MAX.to_le_bytes()[..]),
        (count_at, &0u32.to_le_bytes()),
        (5, &u64::MAX.to_le_bytes()),
        (5, &(1u64 << 40).to_le_bytes()),
        (count_at - 16, &(1u64 << 50).to_le_bytes()),
    ] {
        let mut forged = delta.clone();
        forged[at..at + bytes.len()].copy_from_slice(bytes);
        let error = opened(&forged).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    }
}

#[test]
fn a_damaged_delta_with_a_trailer_gives_exact_tensors_or_refusals() {
    let mut rng = Rng(6);
    let weights = rng.bf16_weights(120);
    let mut tuned = weights.clone();
    tuned[9] ^= 5;
    let base = checkpoint(&[("same", "BF16", &weights), ("tuned", "BF16", &weights)]);
    let target = checkpoint(&[
        ("tuned", "BF16", &tuned),
        ("same", "BF16", &weights),
        ("new", "U8", &tuned),
    ]);
    let delta = with_trailer(&base, &target);
    let (base, target) = (opened(&base).unwrap(), opened(&target).unwrap());
    let (mut refused, mut exact) = (0, 0);
    let mut check = |damaged: &[u8], what: &str| {
        let Ok(opened) = opened(damaged) else {
            refused += 1;
            return;
        };
        if opened.catalog.check_base(&base.catalog).is_err() {
            refused += 1;
            return;
        }
        assert!(opened.names().eq(target.names()), "{what}");
        for (tensor, truth) in opened
            .catalog
            .tensors()
            .iter()
            .zip(target.catalog.tensors())
        {
            assert_eq!(
                (tensor.dtype, &tensor.shape),
                (truth.dtype, &truth.shape),
                "{what}"
            );
            match opened.tensor(&Pure, &tensor.name, &[&base]) {
                Err(_) => refused += 1,
                Ok(bytes) => {
                    assert!(
                        bytes == target.tensor(&Pure, &tensor.name, &[]).unwrap(),
                        "{what}"
                    );
                    exact += 1;
                }
            }
        }
    };
    for bit in 0..delta.len() * 8 {
        let mut flipped = delta.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        check(&flipped, &format!("bit {bit}"));
    }
    for len in 0..delta.len() {
        check(&delta[..len], &format!("cut at {len}"));
    }
    assert!(
        refused > 3000 && exact > 1000,
        "{refused} refused, {exact} exact"
    );
}

#[test]
fn malformed_vectors_are_refused_for_their_rule() {
    let mut refused = 0;
    for case in cases::deltas("zstn-bad", "z4dm") {
        let name = case["name"].as_str().unwrap();
        if case["verdict"] != "must_reject" {
            continue;
        }
        let delta = cases::named("zstn-bad", &case);
        let base = cases::named("zstn-bad", &case["base"]);
        let result = opened(&delta).and_then(|delta| {
            let base = opened(&base)?;
            delta.catalog.check_base(&base.catalog)?;
            for name in delta.names() {
                delta.tensor(&Pure, name, &[&base])?;
            }
            Ok(())
        });
        Refusal::of_opened(&case).check(name, result);
        refused += 1;
    }
    assert_eq!(refused, 9);
}

#[test]
fn bases_that_do_not_fit() {
    let mut rng = Rng(12);
    let [a, b, longer] = [200, 200, 300].map(|count| rng.bf16_weights(count));
    let mut tuned = a.clone();
    tuned[3] ^= 1;
    let base = checkpoint(&[("a", "BF16", &a), ("b", "BF16", &b)]);
    let delta_file = with_trailer(
        &base,
        &checkpoint(&[("a", "BF16", &tuned), ("b", "BF16", &b)]),
    );
    let delta = opened(&delta_file).unwrap();
    for (base, rule, tensor) in [
        (
            checkpoint(&[("b", "BF16", &b)]),
            "delta.base_tensor",
            Some("a"),
        ),
        (
            checkpoint(&[("a", "BF16", &a), ("b", "BF16", &longer)]),
            "delta.base_tensor",
            Some("b"),
        ),
        (
            checkpoint(&[("a", "BF16", &a), ("b", "F16", &b)]),
            "delta.base_tensor",
            Some("b"),
        ),
        (
            checkpoint(&[("b", "BF16", &b), ("a", "BF16", &a)]),
            "delta.reference",
            None,
        ),
        (
            checkpoint(&[("a", "BF16", &a), ("b", "BF16", &b), ("c", "U8", b"1")]),
            "delta.reference",
            None,
        ),
    ] {
        let error = delta
            .catalog
            .check_base(&opened(&base).unwrap().catalog)
            .unwrap_err();
        assert_eq!(
            (error.rule().map(|r| r.code()), error.tensor_name()),
            (Some(rule), tensor),
            "{error}"
        );
    }
    // A base with the same names and lengths but other bytes is detected on reading.
    let mut other_b = b.clone();
    other_b[100] ^= 1;
    let other = checkpoint(&[("a", "BF16", &b), ("b", "BF16", &other_b)]);
    let other = opened(&other).unwrap();
    delta.catalog.check_base(&other.catalog).unwrap();
    for name in ["a", "b"] {
        let error = delta.tensor(&Pure, name, &[&other]).unwrap_err();
        assert_eq!(
            (error.rule().map(|r| r.code()), error.tensor_name()),
            (Some("delta.reference"), Some(name)),
            "{error}"
        );
    }
    let error = delta.tensor(&Pure, "a", &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let error = other.catalog.check_base(&other.catalog).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}
