//! Gauss files written by zstn: they equal Python's except for intentional differences,
//! every element is within the error bound, and tensors without a bound are stored raw.

mod error_bound;
mod files;
mod python;

use half::{bf16, f16};
use serde_json::Value;
use zstn_core::bytes::part;
use zstn_core::container::foreign::gauss::{
    Components, GaussIndex, GaussOptions, ParsedIndex, Report, SourceTensor, decode, encode,
};
use zstn_core::dtype::Dtype;
use zstn_core::engine::Engine;
use zstn_core::pure::Pure;
use zstn_core::{Error, Result};
use zstn_tests::cases::text;

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
        ..Options::default()
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
