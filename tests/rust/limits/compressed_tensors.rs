//! Damaged parts of compressed-tensors lead to a typed error or to other bytes of the
//! right shape, but never to a panic or to memory that the input does not justify.

use zstn_core::ErrorKind;
use zstn_core::container::foreign::compressed_tensors::{CheckpointEntry, Role};
use zstn_core::dtype::Dtype;
use zstn_tests::allocator::{alone, peak_bytes};
use zstn_tests::foreign::{GOOD, Model, cases};
use zstn_tests::rng::Rng;

/// Memory limit, far above the needs of these small models.
const MOST_BYTES: usize = 64 << 20;

/// Reads `name`, and checks the memory use and the consistency of the result.
fn try_reading(model: &Model, name: &str) {
    let (result, peak) = peak_bytes(|| model.read(name));
    assert!(peak < MOST_BYTES, "{name} held {peak} bytes");
    match result {
        Ok(dense) => {
            let none = dense.shape.contains(&0);
            let elements: u64 = if none {
                0
            } else {
                dense.shape.iter().product()
            };
            assert_eq!(dense.bytes.len() as u64 * 8, elements * dense.dtype.bits());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Returns a random number below `end`.
fn below(random: &mut Rng, end: usize) -> usize {
    usize::try_from(random.next_u64() % end as u64).expect("a position")
}

/// Reads the weights to which a damaged tensor may belong.
fn try_neighbours(model: &Model, damaged: usize, names: &[String]) {
    let damaged = &model.tensors[damaged].0.name;
    let module = damaged.rsplit_once('.').map_or("", |(module, _)| module);
    for name in names.iter().filter(|name| name.starts_with(module)) {
        try_reading(model, name);
    }
}

#[test]
fn parts_of_another_length_are_refused() {
    let _alone = alone();
    for case in cases(GOOD) {
        let model = Model::vector(GOOD, &case.name);
        let checkpoint = model.checkpoint().expect("a checkpoint");
        for name in model.weights() {
            let Ok(CheckpointEntry::Weight(weight)) = checkpoint.find(&name) else {
                panic!("{name} is no weight");
            };
            let whole: Vec<&[u8]> = weight
                .parts()
                .iter()
                .map(|part| model.bytes(&part.stored.name))
                .collect();
            assert!(weight.decode(&whole[1..]).is_err());
            for place in 0..whole.len() {
                let long = [whole[place], &[0]].concat();
                let shorter = whole[place].len().saturating_sub(1);
                for cut in [&long[..], &whole[place][..shorter], &[]] {
                    if cut.len() == whole[place].len() {
                        continue;
                    }
                    let mut parts = whole.clone();
                    parts[place] = cut;
                    let error = weight.decode(&parts).expect_err("a part of another length");
                    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
                }
            }
        }
    }
}

#[test]
fn a_missing_part_is_noticed() {
    let _alone = alone();
    for case in cases(GOOD) {
        let whole = Model::vector(GOOD, &case.name);
        let checkpoint = whole.checkpoint().expect("a checkpoint");
        for name in whole.weights() {
            let Ok(CheckpointEntry::Weight(weight)) = checkpoint.find(&name) else {
                panic!("{name} is no weight");
            };
            for part in weight.parts() {
                let mut model = whole.clone();
                model.tensors.retain(|(stored, _)| *stored != part.stored);
                // Without a scale, one-byte codes are ordinary tensors.
                if let Ok(CheckpointEntry::Weight(_)) =
                    model.checkpoint().expect("a checkpoint").find(&name)
                {
                    assert_eq!(part.role, Role::Scale, "{}: {part:?}", case.name);
                    assert!(weight.format().is_sparse() || case.name.starts_with("stack"));
                }
            }
        }
    }
}

#[test]
fn other_shapes_and_dtypes_never_panic() {
    let _alone = alone();
    for case in cases(GOOD) {
        let whole = Model::vector(GOOD, &case.name);
        let names: Vec<String> = case.tensors.keys().cloned().collect();
        for place in 0..whole.tensors.len() {
            let shape = whole.tensors[place].0.shape.clone();
            let mut shapes = vec![
                vec![],
                vec![0],
                vec![u64::MAX],
                vec![1 << 40, 0],
                vec![0, 1 << 62],
            ];
            shapes.push([&shape[..], &[1]].concat());
            shapes.push([&[1], &shape[..]].concat());
            shapes.push(shape.iter().rev().copied().collect());
            for dimension in 0..shape.len() {
                for change in [
                    0,
                    1,
                    shape[dimension] + 1,
                    shape[dimension] * 2,
                    1 << 33,
                    1 << 63,
                ] {
                    let mut other = shape.clone();
                    other[dimension] = change;
                    shapes.push(other);
                }
            }
            for shape in shapes {
                let mut model = whole.clone();
                model.tensors[place].0.shape = shape;
                // Resize the data to the length that this shape implies.
                if let Ok(len) = model.tensors[place].0.len_bytes()
                    && len < 1 << 16
                {
                    let len = usize::try_from(len).expect("a length");
                    model.tensors[place].1.resize(len, 0);
                }
                try_neighbours(&model, place, &names);
            }
            for dtype in Dtype::ALL {
                let mut model = whole.clone();
                model.tensors[place].0.dtype = dtype;
                if let Ok(len) = model.tensors[place].0.len_bytes() {
                    let len = usize::try_from(len).expect("a length");
                    model.tensors[place].1.resize(len, 0);
                }
                try_neighbours(&model, place, &names);
            }
        }
    }
}

#[test]
fn shapes_without_elements_cost_no_time() {
    let _alone = alone();
    let zero = |dtype: &str, shape: &[u64]| {
        let scheme = format!(r#"{{"strategy": "group", "group_size": 16 {dtype}}}"#);
        let scale = [&shape[..shape.len() - 1], &[0]].concat();
        // Zero points have eight bits each, so a word holds four.
        let mut zeros = scale.clone();
        zeros[shape.len() - 2] /= 4;
        let bytes: Vec<u8> = shape.iter().flat_map(|n| n.to_le_bytes()).collect();
        Model::module(
            &scheme,
            "pack-quantized",
            &[
                ("weight_shape", Dtype::I64, &[shape.len() as u64], bytes),
                ("weight_packed", Dtype::I32, &scale, vec![]),
                ("weight_scale", Dtype::F32, &scale, vec![]),
                ("weight_zero_point", Dtype::I32, &zeros, vec![]),
            ],
        )
    };
    for shape in [
        vec![1 << 60, 0],
        vec![1 << 50, 1 << 50, 0],
        vec![0, 1 << 60, 0],
    ] {
        for symmetric in ["", r#", "symmetric": false"#] {
            let dense = zero(symmetric, &shape).read("p.weight");
            assert_eq!(dense.expect("nothing").shape, shape);
        }
    }
}

#[test]
fn other_bytes_never_panic() {
    let _alone = alone();
    let mut random = Rng(7);
    for case in cases(GOOD) {
        let whole = Model::vector(GOOD, &case.name);
        let names: Vec<String> = case.tensors.keys().cloned().collect();
        for _ in 0..60 {
            let mut model = whole.clone();
            let place = below(&mut random, model.tensors.len());
            let bytes = &mut model.tensors[place].1;
            if bytes.is_empty() {
                continue;
            }
            let byte = below(&mut random, bytes.len());
            bytes[byte] = random.bytes(1)[0];
            try_neighbours(&model, place, &names);
        }
    }
}

#[test]
fn damaged_configurations_never_panic() {
    let _alone = alone();
    let mut random = Rng(11);
    for case in cases(GOOD) {
        let whole = Model::vector(GOOD, &case.name);
        for _ in 0..40 {
            let mut model = whole.clone();
            let byte = below(&mut random, model.config.len());
            model.config[byte] = b"0{}[]\",:-x9"[below(&mut random, 11)];
            for name in case.tensors.keys() {
                try_reading(&model, name);
            }
        }
    }
}
