//! Every element is within its error bound, or the tensor is stored raw.

use proptest::prelude::*;
use zstn_core::container::foreign::gauss::{Components, GaussOptions, RawReason};
use zstn_core::dtype::Dtype;
use zstn_tests::rng::Rng;

use super::{bytes_of, one, small};

/// Generates two-dimensional tensors of every float dtype and of many distributions.
fn tensors() -> impl Strategy<Value = (Dtype, [u64; 2], Vec<f64>)> {
    let dtype = prop::sample::select(vec![Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::F64]);
    let shape = [0u64..12, 0u64..40];
    (dtype, shape, 0u8..9, any::<u64>(), -6i32..5).prop_map(|(dtype, shape, kind, seed, size)| {
        let mut rng = Rng(seed);
        let size = 10f64.powi(size);
        let count = shape[0] * shape[1];
        let values = (0..count)
            .map(|number| match kind {
                0 | 1 => rng.normal(size),
                // A Cauchy distribution, with a few values far from the others.
                2 => rng.normal(size) / rng.normal(1.0),
                3 => size,
                4 => (rng.unit() * 8.0).floor() * size,
                5 if number == seed % (count + 1) => f64::NAN,
                6 if number == seed % (count + 1) => f64::NEG_INFINITY,
                7 => rng.unit() * 1e-40,
                _ => f64::from_bits(rng.next_u64()),
            })
            .collect();
        (dtype, shape, values)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn every_value_is_within_the_promised_error(
        (dtype, shape, values) in tensors(),
        components in prop_oneof![
            (2u32..=255).prop_map(Components::Exactly),
            Just(Components::Exactly(4)),
            Just(Components::Smallest),
        ],
        scale in prop::option::of(1u32..100_000),
        shard_rows in 1u32..6,
        shard_threshold in 0u64..400,
        max_iterations in 0u32..12,
    ) {
        let bytes = bytes_of(dtype, values);
        let options = GaussOptions {
            components, scale, shard_rows, shard_threshold, max_iterations, ..small()
        };
        one(dtype, &shape, &bytes, &options);
    }
}

#[test]
fn tensors_that_cannot_keep_the_promise_stay_raw() {
    let normal =
        |rng: &mut Rng, deviation| (0..900).map(|_| rng.normal(deviation)).collect::<Vec<_>>();
    // The means stay at percentiles, so none of them moves to an outlier.
    let options = GaussOptions {
        max_iterations: 0,
        ..small()
    };
    let mut rng = Rng(3);
    let reason = |dtype, values: Vec<f64>| {
        let (_, report) = one(dtype, &[30, 30], &bytes_of(dtype, values), &options);
        (
            report.tensors[0].raw,
            report.tensors[0].shards.first().map(|s| s.added),
        )
    };
    let mut with = |far: f64| {
        let mut values = normal(&mut rng, 0.05);
        values[77] = far;
        values
    };
    assert_eq!(
        reason(Dtype::F32, with(f64::NAN)).0,
        Some(RawReason::NotFinite)
    );
    assert_eq!(
        reason(Dtype::F16, with(f64::INFINITY)).0,
        Some(RawReason::NotFinite)
    );
    assert_eq!(
        reason(Dtype::F64, with(1e300)).0,
        Some(RawReason::NotFinite)
    );
    // A single distant value gets a component of its own.
    for dtype in [Dtype::F32, Dtype::F64] {
        assert_eq!(reason(dtype, with(0.1)), (None, Some(0)));
        assert_eq!(reason(dtype, with(-5e4)), (None, Some(1)));
    }
    let spread = normal(&mut rng, 1e30);
    assert_eq!(reason(Dtype::F32, spread).0, Some(RawReason::OutOfReach));
    let random = (0..900).map(|_| rng.unit() * 30000.0).collect();
    assert_eq!(reason(Dtype::Bf16, random).0, Some(RawReason::Smaller));
}

#[test]
fn one_far_value_costs_little() {
    let mut rng = Rng(4);
    let mut values: Vec<f64> = (0..250_000).map(|_| rng.normal(0.05)).collect();
    let size = |values: &[f64]| {
        let bytes = bytes_of(Dtype::F32, values.iter().copied());
        one(Dtype::F32, &[500, 500], &bytes, &GaussOptions::default())
            .0
            .len()
    };
    let without = size(&values);
    values[9] = 1e6;
    let with = size(&values);
    assert!(with < without * 11 / 10, "{without} became {with} bytes");
}
