//! Whole files are identical for any number of threads; invalid input is refused.

use std::collections::BTreeMap;

use zstn::Engine;
use zstn_core::ErrorKind;
use zstn_core::container::foreign::gauss::{
    Components, GaussOptions, GaussWriter, OtherDtypes, RawReason, SourceTensor, encode_tensor,
};
use zstn_core::dtype::Dtype;
use zstn_core::pure::Pure;
use zstn_tests::cases;
use zstn_tests::checkpoints::Checkpoint;
use zstn_tests::rng::Rng;

use super::{bytes_of, index, one, read, small, write};

#[test]
fn the_file_is_the_same_for_any_number_of_threads() {
    let mut rng = Rng(8);
    let weights: Vec<Vec<u8>> = (0..4)
        .map(|_| {
            bytes_of(
                Dtype::F32,
                (0..6000).map(|_| rng.normal(0.05)).collect::<Vec<_>>(),
            )
        })
        .collect();
    let names = ["a", "b", "c", "d"];
    let sources: Vec<SourceTensor> = names
        .iter()
        .zip(&weights)
        .map(|(name, bytes)| SourceTensor {
            name,
            dtype: Dtype::F32,
            shape: &[60, 100],
            bytes,
        })
        .collect();
    let options = GaussOptions {
        fit_samples: 500,
        shard_rows: 7,
        shard_threshold: 1000,
        ..small()
    };
    let (file, report) = write(&Pure, &sources, &options).expect("written");
    for threads in [1, 2, 5] {
        let engine = Engine::new(threads).expect("threads");
        assert_eq!(
            write(&engine, &sources, &options).expect("written"),
            (file.clone(), report.clone())
        );
    }
    // The tensors are encoded one by one, with the data in a separate buffer.
    let (mut writer, mut data) = (GaussWriter::new(), Vec::new());
    for source in &sources {
        let encoded = encode_tensor(&Pure, source, &options).expect("coded");
        writer.add(&encoded).expect("new");
        assert!(writer.add(&encoded).is_err(), "the name is taken");
        data.extend(encoded.data.expect("not raw"));
    }
    let mut streamed = writer.finish().expect("small");
    streamed.extend(data);
    assert!(streamed == file);
}

#[test]
fn fewer_components_are_smaller() {
    let mut rng = Rng(9);
    let bytes = bytes_of(
        Dtype::F32,
        (0..40_000).map(|_| rng.normal(0.05)).collect::<Vec<_>>(),
    );
    let size = |components| {
        let options = GaussOptions {
            components,
            ..GaussOptions::default()
        };
        one(Dtype::F32, &[200, 200], &bytes, &options).0.len()
    };
    let smallest = size(Components::Smallest);
    assert!(smallest < size(Components::Exactly(16)));
    assert!(smallest <= size(Components::Exactly(4)));
}

#[test]
fn integers_are_lossless_and_other_dtypes_are_not_renamed() {
    let mut rng = Rng(10);
    let bytes = rng.bytes(64 * 64 * 8);
    let mut refused = 0;
    for dtype in Dtype::ALL {
        let Some(width) = dtype.len_bytes() else {
            continue;
        };
        if matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64) {
            continue;
        }
        let bytes = &bytes[..64 * 64 * width];
        let source = SourceTensor {
            name: "w",
            dtype,
            shape: &[64, 64],
            bytes,
        };
        let strict = write(&Pure, &[source], &small());
        match dtype.name() {
            "I8" | "I16" | "I32" | "I64" => {
                assert_eq!(
                    read(&strict.expect("known").0, "w"),
                    (dtype, bytes.to_vec())
                );
            }
            _ => {
                let error = strict.expect_err("no such dtype");
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                assert_eq!(error.tensor_name(), Some("w"));
                refused += 1;
                let options = GaussOptions {
                    other_dtypes: OtherDtypes::AsSigned,
                    ..small()
                };
                let (_, report) = one(dtype, &[64, 64], bytes, &options);
                assert_eq!(report.tensors[0].raw, Some(RawReason::Integers));
                assert_eq!(report.tensors[0].dtype.bits(), dtype.bits());
            }
        }
    }
    assert_eq!(refused, 11);
}

#[test]
fn impossible_options_and_tensors_are_refused_before_work() {
    let source = |name, shape, bytes| SourceTensor {
        name,
        dtype: Dtype::F32,
        shape,
        bytes,
    };
    let good = source("w", &[1, 2][..], &[0; 8][..]);
    let kind = |sources: &[SourceTensor], options: GaussOptions| {
        write(&Pure, sources, &options)
            .map(|_| ())
            .map_err(|error| error.kind())
    };
    let wrong = Err(ErrorKind::InvalidInput);
    for count in [0, 1, 256, u32::MAX] {
        let components = Components::Exactly(count);
        assert_eq!(
            kind(
                &[good],
                GaussOptions {
                    components,
                    ..small()
                }
            ),
            wrong
        );
    }
    for options in [
        GaussOptions {
            shard_rows: 0,
            ..small()
        },
        GaussOptions {
            scale: Some(0),
            ..small()
        },
        GaussOptions {
            fit_samples: 0,
            ..small()
        },
    ] {
        assert_eq!(kind(&[good], options), wrong);
    }
    let long = "n".repeat(65536);
    for bad in [
        source(&long, &[1, 2], &[0; 8]),
        source("w", &[1, 3], &[0; 8]),
        source("w", &[0, 1 << 32], &[]),
        source("w", &[1; 256], &[0; 4]),
    ] {
        assert_eq!(kind(&[bad], small()), wrong);
    }
    assert_eq!(kind(&[good, good], small()), wrong);
    let many = vec![0; 4 * 2 * 70_000];
    let many = source("w", &[70_000, 2], &many);
    let options = GaussOptions {
        shard_threshold: 10,
        shard_rows: 1,
        ..small()
    };
    assert_eq!(kind(&[many], options), wrong);
    assert_eq!(kind(&[], small()), Ok(()));
}

#[test]
fn sizes_and_errors_per_tensor_are_those_of_the_file() {
    let original = cases::read("gauss", "sharded_mixed.safetensors");
    let checkpoint = Checkpoint::parse(&original);
    let options = GaussOptions {
        shard_threshold: 1500,
        shard_rows: 32,
        raw_threshold: 64,
        ..GaussOptions::default()
    };
    let (file, report) = write(&Pure, &checkpoint.sources(), &options).expect("written");
    let index = index(&file);
    let reported: BTreeMap<_, _> = report
        .tensors
        .iter()
        .map(|t| (t.name.as_str(), t))
        .collect();
    assert_eq!(index.tensors.len(), reported.len());
    for tensor in &index.tensors {
        let own = reported[tensor.name.as_str()];
        let records: u64 = tensor
            .shards()
            .iter()
            .map(|s| 13 + 24 * s.mixture.len() as u64)
            .sum();
        assert_eq!(own.stored_len_bytes, tensor.stored_len_bytes() + records);
        assert_eq!(own.shards.len(), tensor.shards().len());
        let bits = own.stored_len_bytes as f64 * 8.0 / tensor.element_count() as f64;
        assert!((own.bits_per_element() - bits).abs() < 1e-12);
    }
}
