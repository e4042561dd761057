//! The writers of the sparse formats.

use proptest::prelude::*;
use zstn_core::container::foreign::compressed_tensors::{
    DenseTensor, Format, SparseWriter, TensorSpec,
};
use zstn_core::dtype::Dtype;
use zstn_tests::cases::read;
use zstn_tests::compressed_model::GOOD;
use zstn_tests::compressed_model::{Model, cases, safetensors};

/// Writes these tensors and the matching configuration.
fn write(format: Format, dense: &[(TensorSpec, Vec<u8>)]) -> (Model, usize) {
    let mut writer = SparseWriter::new(format).expect("a sparse format");
    let mut tensors = Vec::new();
    let mut sparse = 0;
    for (stored, bytes) in dense {
        match writer
            .write(stored, bytes)
            .expect("tensors that fit each other")
        {
            Some(parts) => {
                sparse += 1;
                tensors.extend(parts);
            }
            None => tensors.push((stored.clone(), bytes.clone())),
        }
    }
    let config = format!(
        r#"{{"quantization_config": {}}}"#,
        writer.quantization_config()
    );
    let config = config.into_bytes();
    (Model { config, tensors }, sparse)
}

#[test]
fn the_bytes_are_those_of_the_package() {
    let mut compared = 0;
    for case in cases(GOOD) {
        let format = match case.name.split_once('_') {
            Some(("sb013", _)) => Format::SparseBitmask,
            Some(("s24", _)) => Format::Sparse24Bitmask,
            _ => continue,
        };
        let package = Model::vector(GOOD, &case.name);
        let dense = safetensors(&read(GOOD, &format!("{}.dense.safetensors", case.name)));
        let (own, sparse) = write(format, &dense);
        for (stored, bytes) in &own.tensors {
            if !dense.iter().any(|(dense, _)| dense.name == stored.name) {
                assert!(
                    package.tensors.contains(&(stored.clone(), bytes.clone())),
                    "{}: {stored:?}",
                    case.name
                );
            }
        }
        compared += sparse;
    }
    assert!(compared >= 5, "only {compared} tensors were worth it");
}

#[test]
fn what_is_not_worth_it_stays_dense() {
    let stored = |name: &str, dtype, shape: &[u64]| TensorSpec {
        name: name.into(),
        dtype,
        shape: shape.to_vec(),
    };
    let (dense, sparse) = ([1; 4096], [0; 4096]);
    for (format, stored, bytes, expected) in [
        (
            Format::SparseBitmask,
            stored("a.weight", Dtype::F16, &[8, 256]),
            sparse,
            1,
        ),
        (
            Format::SparseBitmask,
            stored("a.weight", Dtype::F16, &[8, 256]),
            dense,
            0,
        ),
        (
            Format::SparseBitmask,
            stored("a.bias", Dtype::F16, &[2048]),
            sparse,
            0,
        ),
        (
            Format::SparseBitmask,
            stored("a.weight.weight", Dtype::F16, &[2048]),
            sparse,
            0,
        ),
        (
            Format::SparseBitmask,
            stored("a.weight", Dtype::I64, &[512]),
            sparse,
            0,
        ),
        (
            Format::Sparse24Bitmask,
            stored("a.weight", Dtype::F16, &[8, 256]),
            sparse,
            1,
        ),
        (
            Format::Sparse24Bitmask,
            stored("a.weight", Dtype::F16, &[8, 256]),
            dense,
            0,
        ),
        (
            Format::Sparse24Bitmask,
            stored("a.weight", Dtype::F16, &[2, 4, 256]),
            sparse,
            0,
        ),
        (
            Format::Sparse24Bitmask,
            stored("a.weight", Dtype::F16, &[1024, 2]),
            sparse,
            0,
        ),
    ] {
        let (model, count) = write(format, &[(stored.clone(), bytes.to_vec())]);
        assert_eq!(count, expected, "{format:?} {stored:?}");
        assert_eq!(model.read(&stored.name).expect("a tensor").bytes, bytes);
    }
}

#[test]
fn the_configuration_says_what_was_written() {
    let stored = TensorSpec {
        name: "m.0.weight".into(),
        dtype: Dtype::I8,
        shape: vec![1, 4096],
    };
    let mut bytes = vec![0; 4096];
    bytes[..1024].fill(1);
    let (model, _) = write(Format::SparseBitmask, &[(stored, bytes)]);
    let config: serde_json::Value = serde_json::from_slice(&model.config).expect("JSON");
    let sparsity = &config["quantization_config"]["sparsity_config"];
    assert_eq!(sparsity["format"], "sparse-bitmask");
    assert_eq!(sparsity["global_sparsity"], 0.75);
    assert_eq!(sparsity["targets"], serde_json::json!(["m.0"]));
}

/// Generates a tensor of rank 1 to 3 with a share of zeros. Half of the patterns keep
/// at most two of every four elements.
fn tensors() -> impl Strategy<Value = (TensorSpec, Vec<u8>)> {
    let dtypes = [
        Dtype::F32,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::I8,
        Dtype::F8E4M3,
    ];
    let shape = prop_oneof![
        prop::collection::vec(0u64..40, 1..4),
        (0u64..40, 0u64..40).prop_map(|(rows, fours)| vec![rows, fours * 4]),
    ];
    (
        shape,
        prop::sample::select(dtypes.to_vec()),
        0u8..=100,
        any::<u64>(),
        any::<bool>(),
    )
        .prop_map(|(shape, dtype, density, seed, fours)| {
            let mut random = zstn_tests::rng::Rng(seed);
            let width = dtype.len_bytes().expect("whole bytes");
            let count = usize::try_from(shape.iter().product::<u64>()).expect("small");
            let mut bytes = Vec::new();
            for place in 0..count {
                let keep =
                    random.next_u64() % 100 < u64::from(density) && (!fours || place % 4 < 2);
                let mut element = random.bytes(width);
                match random.next_u64() % 8 {
                    _ if !keep => element.fill(0),
                    // Negative zero, or the most negative integer.
                    0 => {
                        element.fill(0);
                        element[width - 1] = 0x80;
                    }
                    _ => {}
                }
                bytes.extend(element);
            }
            let name = "m.weight".into();
            (TensorSpec { name, dtype, shape }, bytes)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_bit_comes_back((stored, bytes) in tensors(), fours: bool) {
        let format = if fours { Format::Sparse24Bitmask } else { Format::SparseBitmask };
        let (model, sparse) = write(format, &[(stored.clone(), bytes.clone())]);
        let expected = DenseTensor { dtype: stored.dtype, shape: stored.shape.clone(), bytes };
        prop_assert_eq!(model.read("m.weight").expect("a tensor"), expected);
        let len: usize = model.tensors.iter().map(|(_, bytes)| bytes.len()).sum();
        prop_assert!(sparse == 0 || (len as u64) < stored.len_bytes().expect("a length"));
    }
}
