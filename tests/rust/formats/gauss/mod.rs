//! Gauss files made by the real package are read exactly, malformed ones are refused,
//! and the entropy coder equals the original implementation word by word.

mod write;

use serde_json::Value;
use zstn_core::ErrorKind;
use zstn_core::bytes::part;
use zstn_core::container::foreign::gauss::{TensorCoding, decode_shard};
use zstn_core::engine::Engine;
use zstn_core::entropy::ans::{Categorical, Decoder, Encoder, Gaussian};
use zstn_core::pure::Pure;
use zstn_core::transform::gmm::Mixture;
use zstn_tests::cases::{self, text};
use zstn_tests::checkpoints::Checkpoint;
use zstn_tests::foreign::{GAUSS_FOLDER, open_gauss, read_gauss};

fn vectors() -> Vec<(String, Vec<u8>, Value)> {
    cases::entries(GAUSS_FOLDER, "vectors")
        .into_iter()
        .map(|vector| {
            let name = text(&vector["name"]);
            let file = cases::read(GAUSS_FOLDER, &format!("{name}.gauss"));
            (name, file, vector)
        })
        .collect()
}

fn vectors_restore(engine: &impl Engine) {
    let mut tensors = 0;
    for (name, file, vector) in vectors() {
        let restored = cases::read(GAUSS_FOLDER, &format!("{name}.restored.safetensors"));
        let truth = Checkpoint::parse(&restored);
        let read = read_gauss(engine, &file).unwrap_or_else(|error| panic!("{name}: {error}"));
        let names: Vec<&str> = read.iter().map(|(t, _)| t.name.as_str()).collect();
        let order = vector["order_in_file"].as_array().expect("a list");
        assert_eq!(
            names,
            order
                .iter()
                .map(|n| n.as_str().unwrap())
                .collect::<Vec<_>>()
        );
        assert_eq!(read.len(), truth.header.tensors.len(), "{name}");
        for (tensor, bytes) in read {
            let (expected, expected_bytes) = truth.tensor(&tensor.name);
            assert_eq!(tensor.dtype, expected.dtype, "{name}/{}", tensor.name);
            assert_eq!(tensor.shape, expected.shape, "{name}/{}", tensor.name);
            assert!(bytes == expected_bytes, "{name}/{} differs", tensor.name);
            tensors += 1;
        }
    }
    assert!(tensors >= 80, "only {tensors} tensors");
}

#[test]
fn vectors_restore_with_c_zstd_and_threads() {
    vectors_restore(&zstn::Engine::new(2).expect("two threads"));
}

#[test]
fn vectors_restore_with_rust_alone() {
    vectors_restore(&Pure);
}

#[test]
fn the_index_is_what_the_manifest_says() {
    for (name, file, vector) in vectors() {
        let (index, _) = open_gauss(&file, file.len()).expect(&name);
        assert_eq!(
            Value::from(index.version),
            vector["format_version"],
            "{name}"
        );
        assert_eq!(index.trailing_bytes, 0, "{name}");
        for truth in vector["tensors"].as_array().expect("a list") {
            let found = index.find(&text(&truth["name"]));
            if truth["route"] == "absent" {
                assert_eq!(found.unwrap_err().kind(), ErrorKind::NotFound);
                continue;
            }
            let tensor = found.expect(&name);
            assert_eq!(
                truth["route"] == "raw",
                tensor.coding == TensorCoding::Raw,
                "{name}"
            );
            let shards = tensor.shards();
            let list = |field: &str| truth[field].as_array().cloned().unwrap_or_default();
            let ours = |number: fn(&zstn_core::container::foreign::gauss::GaussShard) -> u64| {
                shards
                    .iter()
                    .map(number)
                    .map(Value::from)
                    .collect::<Vec<_>>()
            };
            assert_eq!(list("K"), ours(|s| s.mixture.len() as u64), "{name}");
            assert_eq!(list("scale"), ours(|s| s.scale.into()), "{name}");
            assert_eq!(list("idx_words"), ours(|s| s.index_words.into()), "{name}");
            assert_eq!(
                list("resid_words"),
                ours(|s| s.residual_words.into()),
                "{name}"
            );
        }
    }
}

#[test]
fn one_shard_reads_alone() {
    let mut shards = 0;
    for (name, file, _) in vectors() {
        for (tensor, bytes) in read_gauss(&Pure, &file).expect(&name) {
            let width = tensor.dtype.len_bytes().expect("whole bytes") as u64;
            for (number, shard) in tensor.shards().iter().enumerate() {
                let stored = part(&file, shard.stored.clone());
                let own = decode_shard(&tensor, number, stored).expect(&name);
                let span = shard.elements.start * width..shard.elements.end * width;
                assert!(own == part(&bytes, span), "{name}/{} {number}", tensor.name);
                shards += 1;
            }
            let error = decode_shard(&tensor, tensor.shards().len(), &[]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
    }
    assert!(shards >= 80, "only {shards} shards");
}

#[test]
fn an_index_is_found_from_any_head() {
    for (name, file, _) in vectors() {
        let whole = open_gauss(&file, file.len()).expect(&name).0;
        for head in [0, 8, 16, 20, 100, 1000] {
            let (index, reads) = open_gauss(&file, head.min(file.len())).expect(&name);
            assert_eq!(index, whole, "{name}");
            assert!(reads <= 4, "{name}: {reads} reads from {head} bytes");
        }
    }
}

#[test]
fn every_truncation_is_refused() {
    for name in ["mixed_dtypes", "sharded_bf16", "legacy_v1", "legacy_v3"] {
        let file = cases::read(GAUSS_FOLDER, &format!("{name}.gauss"));
        for len in 0..file.len() {
            let error = read_gauss(&Pure, &file[..len]).expect_err("cut");
            assert_eq!(
                error.kind(),
                ErrorKind::Malformed,
                "{name} cut at {len}: {error}"
            );
        }
    }
}

/// Parses a C99 hexadecimal float.
fn hex_float(value: &Value) -> f64 {
    let text = text(value);
    let (mantissa, exponent) = text.split_once('p').expect("an exponent");
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, mantissa),
    };
    let digits = mantissa
        .strip_prefix("0x")
        .expect("hexadecimal")
        .replace('.', "");
    let places = mantissa.split_once('.').map_or(0, |(_, part)| part.len());
    let places = i32::try_from(places).expect("few");
    let whole = u64::from_str_radix(&digits, 16).expect("digits") as f64;
    let exponent: i32 = exponent.parse().expect("a number");
    sign * whole * 2f64.powi(exponent - 4 * places)
}

fn numbers<T: TryFrom<i64>>(value: &Value) -> Vec<T> {
    let list = value.as_array().expect("a list");
    let numbers = list.iter().filter_map(|n| T::try_from(n.as_i64()?).ok());
    let numbers: Vec<T> = numbers.collect();
    assert_eq!(numbers.len(), list.len());
    numbers
}

#[test]
fn words_are_those_of_the_real_coder() {
    let ans: Value = serde_json::from_slice(&cases::read(GAUSS_FOLDER, "ans.json")).expect("JSON");
    let list = |name: &str| ans[name].as_array().expect("a list").clone();
    let floats = |value: &Value| -> Vec<f64> {
        value
            .as_array()
            .expect("a list")
            .iter()
            .map(hex_float)
            .collect()
    };
    for case in list("categorical") {
        let weights = floats(&case["pi"]);
        let mixture = Mixture {
            means: vec![0.0; weights.len()],
            deviations: vec![1.0; weights.len()],
            weights,
        };
        let model = Categorical::new(&mixture.probabilities());
        let lefts: Vec<u32> = numbers(&case["left"]);
        for (symbol, left) in (0..=254).zip(lefts) {
            assert_eq!(model.interval(symbol).left, left, "K {}", mixture.len());
        }
        let symbols: Vec<u8> = numbers(&case["symbols"]);
        let mut encoder = Encoder::new();
        for &symbol in symbols.iter().rev() {
            encoder.push(model.interval(symbol));
        }
        let words = encoder.finish();
        assert_eq!(words, numbers::<u32>(&case["words"]), "K {}", mixture.len());
        let stream: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut decoder = Decoder::open(&stream).expect("words");
        for symbol in symbols {
            let (found, interval) = model.find(decoder.quantile());
            assert_eq!(found, symbol);
            decoder.pop(interval);
        }
        decoder.finish().expect("empty");
    }
    for case in list("gaussian_left") {
        let mut model = Gaussian::new(hex_float(&case["std_before_floor"]));
        let (residuals, lefts) = (numbers::<i32>(&case["r"]), numbers::<u32>(&case["left"]));
        for (residual, left) in residuals.into_iter().zip(lefts) {
            assert_eq!(model.interval(residual).left, left, "{residual} of {case}");
        }
    }
    for case in list("gaussian") {
        let scale = case["scale"].as_f64().expect("a number");
        let residuals: Vec<i32> = numbers(&case["resid"]);
        let mut models: Vec<Gaussian> = floats(&case["sigma"])
            .into_iter()
            .map(|sigma| Gaussian::new(sigma * scale))
            .collect();
        let mut encoder = Encoder::new();
        for (&residual, model) in residuals.iter().zip(&mut models).rev() {
            encoder.push(model.interval(residual));
        }
        assert_eq!(encoder.finish(), numbers::<u32>(&case["words"]));
    }
}
