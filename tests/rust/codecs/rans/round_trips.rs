//! Round trips, and encoded sizes close to the entropy.

use proptest::prelude::*;
use zstn_core::frame::plane::Method;
use zstn_core::pure::Pure;
use zstn_tests::rng::Rng;

use super::{METHODS, comes_back, decode, encode, native, parse, skewed, walk};

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
