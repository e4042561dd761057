//! rANS planes (docs/formats/z4ai-frames.md 5 to 8): round trips, sizes close to the
//! entropy, and rejection of damage.

use proptest::prelude::*;
use zstn_core::engine::Engine;
use zstn_core::entropy::rans::{
    Adaptive, Order1, Shared, encode_adaptive, encode_order1, encode_shared,
};
use zstn_core::frame::decompress;
use zstn_core::frame::plane::{self, Method};
use zstn_core::pure::Pure;
use zstn_core::{Error, ErrorKind, Result, Rule};
use zstn_tests::native;
use zstn_tests::rng::Rng;

const METHODS: [Method; 3] = [Method::Rans, Method::RansAdaptive, Method::RansOrder1];

fn encode(engine: &zstn::Engine, method: Method, plane: &[u8]) -> Vec<u8> {
    match method {
        Method::Rans => encode_shared(engine, plane),
        Method::RansAdaptive => encode_adaptive(engine, plane, 1 << 16),
        _ => encode_order1(engine, plane),
    }
}

fn parse(method: Method, payload: &[u8], len_bytes: u64) -> Result<()> {
    match method {
        Method::Rans => Shared::parse(payload, len_bytes).map(drop),
        Method::RansAdaptive => Adaptive::parse(payload, len_bytes).map(drop),
        _ => Order1::parse(payload, len_bytes).map(drop),
    }
}

fn decode(engine: &impl Engine, method: Method, payload: &[u8], len: usize) -> Result<Vec<u8>> {
    let mut out = vec![0xA5; len];
    match method {
        Method::Rans => Shared::parse(payload, len as u64)?.decode(engine, &mut out)?,
        Method::RansAdaptive => Adaptive::parse(payload, len as u64)?.decode(engine, &mut out)?,
        _ => Order1::parse(payload, len as u64)?.decode(engine, &mut out)?,
    }
    Ok(out)
}

/// Builds an opaque `Z4AI` frame with one plane.
pub fn frame(method: Method, len_bytes: u64, payload: &[u8]) -> Vec<u8> {
    let mut frame = b"Z4AI".to_vec();
    frame.extend_from_slice(&[1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
    plane::write(&mut frame, method, len_bytes, payload);
    frame
}

fn comes_back(native: &zstn::Engine, plane: &[u8]) {
    for method in METHODS {
        let payload = encode(native, method, plane);
        let bytes = decode(&Pure, method, &payload, plane.len()).expect("decodes");
        assert!(bytes == plane, "{method:?} with Rust alone");
        let whole = frame(method, plane.len() as u64, &payload);
        let bytes = decompress(native, &whole, plane.len() as u64).expect("decodes");
        assert!(bytes == plane, "{method:?} with C zstd");
    }
}

/// Returns random bytes; each value is about half as frequent as the previous one.
fn skewed(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len)
        .map(|_| rng.next_u64().trailing_zeros().to_le_bytes()[0])
        .collect()
}

/// Returns bytes that differ little from their predecessors.
fn walk(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut at = 0u8;
    (0..len)
        .map(|_| {
            at = at.wrapping_add((rng.next_u64() % 3).to_le_bytes()[0]);
            at
        })
        .collect()
}

#[test]
fn planes_of_several_chunks_come_back() {
    let native = native();
    let mut rng = Rng(1);
    for len in [65_535, 65_536, 65_537, (1 << 21) + 3] {
        comes_back(&native, &skewed(&mut rng, len));
        comes_back(&native, &walk(&mut rng, len));
        comes_back(&native, &rng.bytes(len));
        comes_back(&native, &vec![0x7F; len]);
    }
}

#[test]
fn chunks_do_not_depend_on_threads() {
    let plane = skewed(&mut Rng(2), 3 << 20);
    let one = zstn::Engine::new(1).expect("a thread");
    for method in METHODS {
        assert!(encode(&one, method, &plane) == encode(&native(), method, &plane));
    }
}

#[test]
fn coded_planes_are_near_their_entropy() {
    let plane = skewed(&mut Rng(3), 1 << 20);
    for method in METHODS {
        // The plane has two bits of entropy per byte.
        let len = encode(&native(), method, &plane).len();
        let ideal = plane.len() / 4;
        assert!(len < ideal + ideal / 50, "{method:?}: {len} for {ideal}");
    }
}

#[test]
fn the_payloads_of_chapter_17() {
    let native = native();
    let text = b"abracadabra";
    let stream = [
        0x7A, 0x99, 0x8F, 0x42, 0x24, 0xDE, 0x48, 0x21, 0xF4, 0xFB, 0x88, 0x42, 0x60, 0xC2, 0x6A,
        0x02,
    ];
    let shared = encode(&native, Method::Rans, text);
    assert_eq!(shared.len(), 536);
    assert_eq!(shared[..8], [11, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(shared[520..], stream);

    let adaptive = encode(&native, Method::RansAdaptive, text);
    assert_eq!(adaptive[..12], [11, 0, 0, 0, 0, 0, 0, 0x40, 1, 0, 0, 0]);
    assert_eq!(adaptive[16..20], [16, 0, 0, 0]);
    assert!(adaptive.ends_with(&stream));

    let order1 = encode(&native, Method::RansOrder1, text);
    assert_eq!(order1[..8], [0x52, 0x31, 4, 0, 11, 0, 0, 0]);
    assert_eq!(order1[12..14], [1, 0]);
    assert!(order1.ends_with(&[
        4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0x02, 0xA0, 0xFF, 0x02, 0x01, 0x6C, 0,
        0x06, 0x56, 0x35, 0, 0x03, 0, 0x08, 0, 0x02,
    ]));
}

#[test]
fn empty_planes() {
    let order1 = [0x52, 0x31, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (method, payload) in METHODS.into_iter().zip([&[0; 8][..], &[0; 8], &order1]) {
        assert_eq!(decode(&Pure, method, payload, 0), Ok(vec![]));
        assert!(parse(method, payload, 1).is_err());
        assert!(parse(method, &[payload, &[0]].concat(), 0).is_err());
        let mut other = payload.to_vec();
        *other.last_mut().expect("not empty") = 0x80;
        assert!(parse(method, &other, 0).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tiny_planes_come_back(plane in proptest::collection::vec(any::<u8>(), 1..9)) {
        comes_back(&zstn::Engine::new(1).expect("a thread"), &plane);
    }

    #[test]
    fn planes_come_back(
        seed in any::<u64>(),
        len in 1usize..9000,
        kind in 0usize..4,
        values in 1u64..257,
    ) {
        let mut rng = Rng(seed);
        let plane = match kind {
            0 => skewed(&mut rng, len),
            1 => walk(&mut rng, len),
            2 => vec![rng.bytes(1)[0]; len],
            _ => (0..len)
                .map(|_| (rng.next_u64() % values).to_le_bytes()[0])
                .collect(),
        };
        comes_back(&zstn::Engine::new(1).expect("a thread"), &plane);
    }

    #[test]
    fn noise_never_panics(
        method in 0usize..3,
        len in 0usize..5000,
        mut payload in proptest::collection::vec(any::<u8>(), 0..700),
        honest in any::<bool>(),
    ) {
        if honest && payload.len() > 14 {
            match method {
                0 => payload[..8].copy_from_slice(&(len as u64).to_le_bytes()),
                1 => payload[..8].copy_from_slice(&(len as u64 | 1 << 62).to_le_bytes()),
                _ => payload[..8].copy_from_slice(&[0x52, 0x31, 4, 0, len.to_le_bytes()[0], len.to_le_bytes()[1], 0, 0]),
            }
        }
        let _ = decode(&Pure, METHODS[method], &payload, len);
    }
}

/// Measures the speed; to be run by hand:
///
/// ```sh
/// cargo test -p zstn-tests --release --test codecs rans -- --ignored --nocapture
/// ```
#[test]
#[ignore = "a measurement"]
fn speed() {
    let native = zstn::Engine::new(1).expect("a thread");
    let mut rng = Rng(7);
    let weights = rng.bf16_weights(16 << 20);
    let plane: Vec<u8> = weights.chunks_exact(2).map(|w| w[1]).collect();
    let mib = (plane.len() >> 20) as f64;
    for method in METHODS {
        let started = std::time::Instant::now();
        let payload = encode(&native, method, &plane);
        let coded = started.elapsed().as_secs_f64();
        let started = std::time::Instant::now();
        let bytes = decode(&native, method, &payload, plane.len()).expect("decodes");
        let decoded = started.elapsed().as_secs_f64();
        assert!(bytes == plane);
        println!(
            "{}: to {:.4}, encodes {:.0} MiB/s, decodes {:.0} MiB/s on one core",
            method.name(),
            payload.len() as f64 / plane.len() as f64,
            mib / coded,
            mib / decoded
        );
    }
}

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
pub fn shared(symbols: u64, frequencies: &[(usize, u16)], stream: &[u8]) -> Vec<u8> {
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
