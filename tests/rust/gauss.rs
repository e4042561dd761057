//! Gauss files made by the real package are read to the bit, and bad ones are
//! refused.

use serde_json::Value;
use zstn_core::bytes::part;
use zstn_core::container::foreign::gauss::{Coding, Index, Parsed, Tensor, decode, decode_shard};
use zstn_core::engine::Engine;
use zstn_core::entropy::ans::{Categorical, Decoder, Encoder, Gaussian};
use zstn_core::limits::{GAUSS_ELEMENTS_PER_WORD, GAUSS_UNEARNED_ELEMENTS};
use zstn_core::pure::Pure;
use zstn_core::transform::gmm::Mixture;
use zstn_core::{ErrorKind, Result};
use zstn_tests::cases::{self, text};
use zstn_tests::checkpoints::Checkpoint;
use zstn_tests::memory::{Counting, peak_bytes};
use zstn_tests::refusal::Refusal;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FOLDER: &str = "gauss";

fn manifest(folder: &str, list: &str) -> Vec<Value> {
    let manifest: Value =
        serde_json::from_slice(&cases::read(folder, "manifest.json")).expect("JSON");
    manifest[list].as_array().expect("a list").clone()
}

fn vectors() -> Vec<(String, Vec<u8>, Value)> {
    manifest(FOLDER, "vectors")
        .into_iter()
        .map(|vector| {
            let name = text(&vector["name"]);
            let file = cases::read(FOLDER, &format!("{name}.gauss"));
            (name, file, vector)
        })
        .collect()
}

/// Opens a file as a reader over HTTP does, and counts its reads.
fn open(file: &[u8], mut have: usize) -> Result<(Index, usize)> {
    let mut reads = 1;
    loop {
        match Index::parse(&file[..have], file.len() as u64)? {
            Parsed::Complete(index) => return Ok((index, reads)),
            Parsed::Needs(bytes) => {
                let bytes = usize::try_from(bytes).expect("in memory");
                assert!(bytes > have && bytes <= file.len(), "asks for {bytes}");
                (have, reads) = (bytes, reads + 1);
            }
        }
    }
}

/// Everything a file holds, by name.
fn read_all(engine: &impl Engine, file: &[u8]) -> Result<Vec<(Tensor, Vec<u8>)>> {
    let (index, _) = open(file, file.len())?;
    let mut all = Vec::new();
    for tensor in index.tensors {
        let bytes = decode(engine, &tensor, part(file, tensor.stored.clone()))?.into_owned();
        all.push((tensor, bytes));
    }
    Ok(all)
}

fn vectors_restore(engine: &impl Engine) {
    let mut tensors = 0;
    for (name, file, vector) in vectors() {
        let restored = cases::read(FOLDER, &format!("{name}.restored.safetensors"));
        let truth = Checkpoint::parse(&restored);
        let read = read_all(engine, &file).unwrap_or_else(|error| panic!("{name}: {error}"));
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
        let (index, _) = open(&file, file.len()).expect(&name);
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
                tensor.coding == Coding::Raw,
                "{name}"
            );
            let shards = tensor.shards();
            let list = |field: &str| truth[field].as_array().cloned().unwrap_or_default();
            let ours = |number: fn(&zstn_core::container::foreign::gauss::Shard) -> u64| {
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
        for (tensor, bytes) in read_all(&Pure, &file).expect(&name) {
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
        let whole = open(&file, file.len()).expect(&name).0;
        for head in [0, 8, 16, 20, 100, 1000] {
            let (index, reads) = open(&file, head.min(file.len())).expect(&name);
            assert_eq!(index, whole, "{name}");
            assert!(reads <= 4, "{name}: {reads} reads from {head} bytes");
        }
    }
}

#[test]
fn bad_files_are_refused_for_their_rule_in_bounded_memory() {
    let native = zstn::Engine::new(2).expect("two threads");
    let entries = cases::malformed("gauss-bad");
    assert!(entries.len() >= 28);
    for entry in entries {
        let name = text(&entry["name"]);
        let file = cases::named("gauss-bad", &entry);
        let refusal = Refusal::of(&entry).expect(&name);
        for (result, peak) in [
            peak_bytes(|| read_all(&Pure, &file)),
            peak_bytes(|| read_all(&native, &file)),
        ] {
            refusal.check(&name, result);
            assert!(peak < 1 << 20, "{name} held {peak} bytes");
        }
    }
}

#[test]
fn every_truncation_is_refused() {
    for name in ["mixed_dtypes", "sharded_bf16", "legacy_v1", "legacy_v3"] {
        let file = cases::read(FOLDER, &format!("{name}.gauss"));
        for len in 0..file.len() {
            let error = read_all(&Pure, &file[..len]).expect_err("cut");
            assert_eq!(
                error.kind(),
                ErrorKind::Malformed,
                "{name} cut at {len}: {error}"
            );
        }
    }
}

#[test]
fn bit_flips_are_refused_or_keep_the_lengths() {
    for name in ["discrete", "legacy_v2", "names"] {
        let file = cases::read(FOLDER, &format!("{name}.gauss"));
        let mut flipped = file.clone();
        // Some bits of the index, some of the streams.
        let streams = open(&file, file.len()).expect(name).0.len_bytes;
        let streams = usize::try_from(streams).expect("in memory");
        let (mut inside, mut caught) = (0, 0);
        for bit in (0..streams * 8)
            .step_by(11)
            .chain((streams * 8..file.len() * 8).step_by(7))
        {
            flipped[bit / 8] ^= 1 << (bit % 8);
            let (result, peak) = peak_bytes(|| read_all(&Pure, &flipped));
            assert!(peak < 128 << 20, "{name} bit {bit} held {peak} bytes");
            if let Ok(tensors) = &result {
                for (tensor, bytes) in tensors {
                    assert_eq!(bytes.len() as u64, tensor.len_bytes(), "{name} bit {bit}");
                }
            }
            if bit >= streams * 8 {
                inside += 1;
                caught += usize::from(result.is_err());
            }
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
        // No checksum exists: what shows is that the coder does not end empty.
        assert!(
            caught * 2 > inside,
            "{name}: only {caught} of {inside} noticed"
        );
    }
}

#[test]
fn a_promise_without_streams_takes_no_memory() {
    // 65535 shards of nothing, each of a hundred million elements.
    let mut file = b"GAUSS004\x01\0\0\0\0\0\0\0\x01\0w\x02".to_vec();
    file.extend_from_slice(&0xFFFFu32.to_le_bytes());
    file.extend_from_slice(&100_000_000u32.to_le_bytes());
    file.extend_from_slice(&[0, 0xFF, 0xFF, 1, 0, 0, 0]);
    for _ in 0..0xFFFF {
        file.push(2);
        for float in [0.5f64, 0.5, 0.0, 0.0, 1.0, 1.0] {
            file.extend_from_slice(&float.to_le_bytes());
        }
        file.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    let (result, peak) = peak_bytes(|| read_all(&Pure, &file));
    assert_eq!(result.expect_err("nothing there").kind(), ErrorKind::Limit);
    assert!(peak < 64 << 20, "held {peak} bytes");
    // Within the limit: the elements at the end of a used-up coder.
    let mut one = file[..35 + 61].to_vec();
    one[20..24].copy_from_slice(&3u32.to_le_bytes());
    one[24..28].copy_from_slice(&5u32.to_le_bytes());
    one[29..35].copy_from_slice(&[1, 0, 0, 0, 0, 0]);
    let read = read_all(&Pure, &one).expect("legal");
    assert_eq!(read[0].1, (-32767f32).to_le_bytes().repeat(15));
}

/// A file of tensors of `elements` each, named t0, t1 and so on, whose streams
/// are empty.
fn without_streams(tensors: u32, elements: u32) -> Vec<u8> {
    let mut file = b"GAUSS004".to_vec();
    file.extend_from_slice(&tensors.to_le_bytes());
    file.extend_from_slice(&[0; 4]);
    for number in 0..tensors {
        let name = format!("t{number}");
        file.extend_from_slice(&[u8::try_from(name.len()).expect("short"), 0]);
        file.extend_from_slice(name.as_bytes());
        file.push(1);
        file.extend_from_slice(&elements.to_le_bytes());
        // A float64 in one shard of two components.
        file.extend_from_slice(&[3, 1, 0, 0, 0, 0, 0, 2]);
        for float in [0.5f64, 0.5, 0.0, 0.0, 1.0, 1.0] {
            file.extend_from_slice(&float.to_le_bytes());
        }
        file.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    file
}

#[test]
fn unearned_elements_are_few_in_a_whole_file() {
    // A shard of no words may have 116 elements by itself.
    let free = 2 * GAUSS_ELEMENTS_PER_WORD;
    let most = GAUSS_UNEARNED_ELEMENTS + free;
    let most = u32::try_from(most).expect("few");
    let (result, peak) = peak_bytes(|| read_all(&Pure, &without_streams(1, most)));
    assert_eq!(result.expect("at the limit")[0].1.len(), 8 * most as usize);
    assert!(peak < 24 << 20, "held {peak} bytes");

    let over = [
        (without_streams(1, most + 1), "t0"),
        // What is left after one tensor is too little for the second, and
        // after many small ones for the last.
        (without_streams(2, most - 50), "t1"),
        (without_streams(5000, most / 1000), "t1125"),
    ];
    for (file, name) in over {
        let (result, peak) = peak_bytes(|| open(&file, file.len()));
        let error = result.expect_err("over the limit");
        assert_eq!(error.kind(), ErrorKind::Limit, "{name}: {error}");
        assert_eq!(error.tensor_name(), Some(name), "{error}");
        assert!(
            peak < 8 * file.len() + (1 << 16),
            "{name} held {peak} bytes"
        );
    }
}

/// A C99 hexadecimal float.
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
