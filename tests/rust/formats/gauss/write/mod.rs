//! Gauss files written by zstn: they equal Python's except for intentional differences,
//! every element is within the error bound, and tensors without a bound are stored raw.

mod files;

use half::{bf16, f16};
use proptest::prelude::*;
use serde_json::Value;
use zstn_core::bytes::part;
use zstn_core::container::foreign::gauss::{
    Components, GaussIndex, GaussOptions, ParsedIndex, RawReason, Report, SourceTensor, decode,
    encode,
};
use zstn_core::dtype::Dtype;
use zstn_core::engine::Engine;
use zstn_core::pure::Pure;
use zstn_core::{Error, ErrorKind, Result};
use zstn_tests::cases::{self, text};
use zstn_tests::checkpoints::Checkpoint;
use zstn_tests::rng::Rng;

fn write<E: Engine>(
    engine: &E,
    sources: &[SourceTensor],
    options: &GaussOptions,
) -> Result<(Vec<u8>, Report)> {
    let mut file = Vec::new();
    let report = encode(engine, sources, options, |bytes: &[u8]| {
        file.extend_from_slice(bytes);
        Ok::<(), Error>(())
    })?;
    assert_eq!(report.len_bytes, file.len() as u64);
    Ok((file, report))
}

fn index(file: &[u8]) -> GaussIndex {
    match GaussIndex::parse(file, file.len() as u64).expect("our own file") {
        ParsedIndex::Complete(index) => index,
        ParsedIndex::Needs(bytes) => panic!("a whole file needs {bytes} bytes"),
    }
}

fn read(file: &[u8], name: &str) -> (Dtype, Vec<u8>) {
    let index = index(file);
    let tensor = index.find(name).expect("there");
    let stored = part(file, tensor.stored.clone());
    let bytes = decode(&Pure, tensor, stored).expect("our own file");
    (tensor.dtype, bytes.into_owned())
}

fn values(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        Dtype::F32 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&e| f32::from_le_bytes(e).into())
            .collect(),
        Dtype::F16 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&e| f16::from_le_bytes(e).into())
            .collect(),
        Dtype::Bf16 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&e| bf16::from_le_bytes(e).into())
            .collect(),
        Dtype::F64 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&e| f64::from_le_bytes(e))
            .collect(),
        other => panic!("{other} is not a float"),
    }
}

/// Returns half the distance between adjacent numbers of the dtype around `value`.
fn half_step(dtype: Dtype, value: f64) -> f64 {
    let (fraction_bits, least_exponent) = match dtype {
        Dtype::F32 => (23, -126),
        Dtype::F16 => (10, -14),
        Dtype::Bf16 => (7, -126),
        _ => (52, -1022),
    };
    // The restored value may be one binade higher.
    #[allow(clippy::cast_possible_truncation)] // small
    let exponent = (value.abs().log2().floor() as i32 + 1).max(least_exponent);
    2f64.powi(exponent - fraction_bits - 1)
}

/// Checks the error bound of every element, and the report.
fn check(source: &SourceTensor, file: &[u8], report: &Report) {
    let own = report
        .tensors
        .iter()
        .find(|t| t.name == source.name)
        .expect("reported");
    let (dtype, bytes) = read(file, source.name);
    assert_eq!(dtype, own.dtype);
    if own.raw.is_some() {
        assert!(bytes == source.bytes, "raw tensors are bit-exact");
        assert_eq!((own.max_error, own.stored_len_bytes), (0.0, own.len_bytes));
        return;
    }
    assert_eq!(dtype, source.dtype);
    let scale = own.shards[0].scale;
    let (before, after) = (values(dtype, source.bytes), values(dtype, &bytes));
    assert_eq!(before.len(), after.len());
    let mut worst = 0f64;
    for (before, after) in before.iter().zip(&after) {
        let error = (before - after).abs();
        let bound =
            0.5 / f64::from(scale) * (1.0 + 1e-9) + half_step(dtype, before.abs().max(after.abs()));
        assert!(error <= bound, "{before} became {after}, {error} > {bound}");
        worst = worst.max(error);
    }
    assert_eq!(own.max_error, worst);
    assert!(own.rms_error <= own.max_error);
}

fn options_of(vector: &Value) -> GaussOptions {
    let number = |name: &str| vector["options"][name].as_u64();
    let small = |name: &str| number(name).map(|n| u32::try_from(n).expect("small"));
    let usual = GaussOptions::default();
    GaussOptions {
        components: small("K").map_or(usual.components, Components::Exactly),
        max_iterations: small("max_iter").unwrap_or(usual.max_iterations),
        shard_threshold: number("shard_threshold").unwrap_or(usual.shard_threshold),
        shard_rows: small("shard_rows").unwrap_or(usual.shard_rows),
        raw_threshold: number("raw_threshold").unwrap_or(usual.raw_threshold),
        layers: vector["options"]["layer_filter"]
            .as_array()
            .map(|names| names.iter().map(text).collect()),
        keep_larger: true,
        ..usual
    }
}

fn bytes_of(dtype: Dtype, values: impl IntoIterator<Item = f64>) -> Vec<u8> {
    let values = values.into_iter();
    #[allow(clippy::cast_possible_truncation)] // rounded
    match dtype {
        Dtype::F32 => values.flat_map(|v| (v as f32).to_le_bytes()).collect(),
        Dtype::F16 => values
            .flat_map(|v| f16::from_f64(v).to_le_bytes())
            .collect(),
        Dtype::Bf16 => values
            .flat_map(|v| bf16::from_f64(v).to_le_bytes())
            .collect(),
        Dtype::F64 => values.flat_map(f64::to_le_bytes).collect(),
        other => panic!("{other} is not a float"),
    }
}

fn small() -> GaussOptions {
    GaussOptions {
        raw_threshold: 1,
        ..GaussOptions::default()
    }
}

fn one(dtype: Dtype, shape: &[u64], bytes: &[u8], options: &GaussOptions) -> (Vec<u8>, Report) {
    let source = SourceTensor {
        name: "w",
        dtype,
        shape,
        bytes,
    };
    let (file, report) = write(&Pure, &[source], options).expect("written");
    check(&source, &file, &report);
    let own = &report.tensors[0];
    assert!(own.raw.is_some() || own.stored_len_bytes < own.len_bytes);
    (file, report)
}

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

#[test]
fn files_are_those_of_python_but_where_python_clips_or_loses() {
    let mut equal = 0;
    for vector in cases::entries("gauss", "vectors") {
        let name = text(&vector["name"]);
        if vector["options"]["writer"].is_string() {
            continue;
        }
        let original = cases::read("gauss", &format!("{name}.safetensors"));
        let checkpoint = Checkpoint::parse(&original);
        let sources = checkpoint.sources();
        let options = options_of(&vector);
        if name == "k1_dropped" {
            let error = write(&Pure, &sources, &options).expect_err("no such mixture");
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            continue;
        }
        let (file, report) = write(&Pure, &sources, &options).expect(&name);
        let theirs = cases::read("gauss", &format!("{name}.gauss"));
        match name.as_str() {
            // zstn adds components for values that Python clips.
            "clipped" | "big_values" => {
                assert!(
                    report
                        .tensors
                        .iter()
                        .all(|t| t.raw.is_some() || t.shards[0].added > 0)
                );
            }
            // zstn restores integers exactly.
            "int_gmm" => {
                assert!(
                    report
                        .tensors
                        .iter()
                        .all(|t| t.raw == Some(RawReason::Integers))
                );
            }
            // zstn does not round doubles to single precision first.
            "mixed_dtypes" => {
                assert!(file.len().abs_diff(theirs.len()) * 100 < theirs.len());
            }
            _ => {
                assert!(file == theirs, "{name} is not Python's file");
                equal += 1;
            }
        }
        for source in &sources {
            if report.tensors.iter().any(|t| t.name == source.name) {
                check(source, &file, &report);
            } else {
                assert!(options.layers.is_some(), "{name} lost {}", source.name);
            }
        }
    }
    assert!(equal >= 30, "only {equal} files");
}
