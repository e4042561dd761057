//! Compares the entropy coder word by word with the original implementation.

use serde_json::Value;
use zstn_core::entropy::ans::{Categorical, Decoder, Encoder, Gaussian};
use zstn_core::transform::gmm::Mixture;
use zstn_tests::cases::{self, text};

use super::FOLDER;

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
    let ans: Value = serde_json::from_slice(&cases::read(FOLDER, "ans.json")).expect("JSON");
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
