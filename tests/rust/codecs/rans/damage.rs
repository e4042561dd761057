//! Damaged payloads and forged lengths.

use zstn_core::frame::plane::Method;
use zstn_core::pure::Pure;
use zstn_core::{Error, ErrorKind, Result, Rule};
use zstn_tests::rng::Rng;

use super::{METHODS, decode, encode, native, parse, skewed};

/// Returns small payloads of every method, with the lengths of their planes.
fn samples(native: &zstn::Engine) -> Vec<(Method, Vec<u8>, usize)> {
    let mut rng = Rng(4);
    let planes = [
        b"abracadabra".to_vec(),
        skewed(&mut rng, 700),
        vec![9; 300],
        vec![1, 2, 3],
    ];
    METHODS
        .into_iter()
        .flat_map(|method| planes.iter().map(move |plane| (method, plane)))
        .map(|(method, plane)| (method, encode(native, method, plane), plane.len()))
        .collect()
}

#[test]
fn every_truncation_is_refused() {
    let native = native();
    for (method, payload, len) in samples(&native) {
        for cut in 0..payload.len() {
            let error = decode(&native, method, &payload[..cut], len).expect_err("cut");
            assert_eq!(error.kind(), ErrorKind::Malformed, "{method:?}: {error}");
        }
        let longer = [&payload[..], &[0]].concat();
        assert!(decode(&native, method, &longer, len).is_err());
        for other in [0, 1, len - 1, len + 1, 2 * len] {
            assert!(decode(&native, method, &payload, other).is_err());
        }
    }
}

#[test]
fn no_bit_flip_panics() {
    let native = native();
    for (method, mut payload, len) in samples(&native) {
        let truth = decode(&Pure, method, &payload, len).expect("good");
        let mut unnoticed = 0;
        for bit in 0..payload.len() * 8 {
            payload[bit / 8] ^= 1 << (bit % 8);
            let results = [
                decode(&Pure, method, &payload, len),
                decode(&native, method, &payload, len),
            ];
            payload[bit / 8] ^= 1 << (bit % 8);
            for result in results {
                match result {
                    Ok(bytes) => unnoticed += usize::from(bytes != truth),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Malformed, "{error}"),
                }
            }
        }
        // The final states and positions act as a check of about 40 bits, which does
        // not cover the values of symbols.
        println!("{method:?}, {len} symbols: {unnoticed} flips unnoticed");
    }
}

/// Builds a payload of method 3, which contains its table.
fn shared(symbols: u64, frequencies: &[(usize, u16)], stream: &[u8]) -> Vec<u8> {
    let mut payload = symbols.to_le_bytes().to_vec();
    let mut table = [0u16; 256];
    for &(symbol, frequency) in frequencies {
        table[symbol] = frequency;
    }
    payload.extend(table.iter().flat_map(|f| f.to_le_bytes()));
    payload.extend_from_slice(stream);
    payload
}

fn rule(result: Result<()>) -> Option<Rule> {
    result.as_ref().err().and_then(Error::rule)
}

#[test]
fn lengths_are_earned() {
    let start = [0, 0, 0x80, 0].repeat(4);
    let nearly = [(0, 16383), (1, 1)];
    let halves = [(0, 8192), (1, 8192)];
    for (table, symbols) in [(&halves[..], 45), (&nearly[..], 1 << 19)] {
        let payload = shared(symbols, table, &start);
        let refused = rule(parse(Method::Rans, &payload, symbols));
        assert_eq!(refused, Some(Rule::RansCapacity));
    }
    // The cheapest table decodes the maximum number of symbols that the check allows:
    // nearly four times the number that takes a state from 2^31 down to 2^23.
    let mut states = [0xFF, 0xFF, 0xFF, 0x7F].repeat(4);
    for symbols in [4 * 90_800, 4 * 90_850] {
        let payload = shared(symbols, &nearly, &states);
        assert_eq!(parse(Method::Rans, &payload, symbols), Ok(()));
    }
    // A single symbol takes no bits and has a separate limit.
    states = start;
    let constant = [(7, 16384)];
    let payload = shared(1 << 20, &constant, &states);
    let bytes = decode(&Pure, Method::Rans, &payload, 1 << 20).expect("a constant plane");
    assert!(bytes.iter().all(|&byte| byte == 7));
    let payload = shared(1 << 40, &constant, &states);
    let error = parse(Method::Rans, &payload, 1 << 40).expect_err("2^40 bytes for nothing");
    assert_eq!(error.kind(), ErrorKind::Limit);
}

#[test]
fn lengths_of_packed_tables_are_earned() {
    // The head of method 4 could belong to a constant plane, but its table does not.
    let native = native();
    let mut plane = Rng(5).bytes(60_000);
    plane.iter_mut().for_each(|byte| *byte &= 3);
    for method in [Method::RansAdaptive, Method::RansOrder1] {
        let mut payload = encode(&native, method, &plane);
        let at = if method == Method::RansAdaptive { 0 } else { 4 };
        payload[at..at + 3].copy_from_slice(&[0, 0, 0x10]);
        let len = 0x10_0000;
        assert_eq!(parse(method, &payload, len as u64), Ok(()));
        let refused = decode(&Pure, method, &payload, len).map(drop);
        assert_eq!(rule(refused), Some(Rule::RansCapacity), "{method:?}");
    }
    // A length that no table could reach is refused at once.
    let mut payload = encode(&native, Method::RansAdaptive, &plane);
    payload[..8].copy_from_slice(&(1u64 << 62 | 1 << 40).to_le_bytes());
    let error = parse(Method::RansAdaptive, &payload, 1 << 40).expect_err("a forged length");
    assert_eq!(error.kind(), ErrorKind::Limit);
}
