//! zstd frames encoded in pure Rust: both decoders restore the input, and the frames
//! satisfy the contract of `PackEngine`.

use proptest::prelude::*;
use zstn_core::engine::{Engine, PackEngine, ZstdCoding};
use zstn_core::entropy;
use zstn_core::pure::Pure;
use zstn_tests::rng::Rng;

const CODINGS: [ZstdCoding; 2] = [ZstdCoding::Huffman, ZstdCoding::Search(3)];

/// Encodes `input`, performs all checks, and returns the frame.
fn frame(input: &[u8], coding: ZstdCoding) -> Vec<u8> {
    let mut frame = b"before".to_vec();
    Pure.zstd_encode(input, coding, &mut frame);
    assert!(frame.starts_with(b"before"), "appends");
    let frame = frame.split_off(6);

    let by_c = zstd::bulk::decompress(&frame, input.len()).expect("C zstd decodes it");
    assert!(by_c == input, "C zstd gives other bytes");
    let mut by_rust = vec![0; input.len()];
    Pure.zstd_decode(&frame, &mut by_rust)
        .expect("Pure decodes it");
    assert!(by_rust == input, "Pure gives other bytes");

    entropy::zstd::check_sized(&frame, input.len() as u64).expect("with its content size");
    assert_eq!(frame[4] & 0x07, 0, "neither checksum nor dictionary");
    let blocks = input.len().div_ceil(128 << 10).max(1);
    assert!(
        frame.len() <= input.len() + 9 + 3 * blocks,
        "{} bytes became {}",
        input.len(),
        frame.len()
    );

    let mut again = Vec::new();
    Pure.zstd_encode(input, coding, &mut again);
    assert!(again == frame, "the same bytes every time");
    frame
}

fn both(input: &[u8]) -> (usize, usize) {
    let [huffman, search] = CODINGS.map(|coding| frame(input, coding).len());
    assert!(search <= huffman, "a search never costs space");
    (huffman, search)
}

#[test]
fn edges_of_lengths() {
    let mut rng = Rng(1);
    for len in [
        0, 1, 2, 3, 4, 5, 6, 7, 15, 16, 255, 256, 257, 1023, 1024, 1025, 16383, 16384, 16385,
        65791, 65792, 65793, 131_071, 131_072, 131_073, 262_144, 400_000,
    ] {
        both(&vec![7; len]);
        both(&rng.bytes(len));
        let skewed: Vec<u8> = rng.bytes(len).iter().map(|b| b & b >> 3 & 31).collect();
        let (huffman, _) = both(&skewed);
        assert!(len < 256 || huffman < len * 3 / 4, "{huffman} of {len}");
    }
}

#[test]
fn every_number_of_symbols() {
    let mut rng = Rng(2);
    for symbols in 1..=256u64 {
        for first in [0, 256 - symbols] {
            // Half of the bytes are the same value, so coding always saves space.
            let bytes: Vec<u8> = (0..6000)
                .map(|i| if i % 2 == 0 { 0 } else { rng.next_u64() % symbols } + first)
                .map(|symbol| symbol.to_le_bytes()[0])
                .collect();
            both(&bytes);
        }
    }
}

#[test]
fn codes_reach_the_limit_of_eleven_bits() {
    // The counts double from symbol to symbol; without the limit, codes would have up
    // to 20 bits.
    let bytes: Vec<u8> = (0..17u8)
        .flat_map(|symbol| vec![symbol.wrapping_mul(37); 1 << symbol])
        .collect();
    both(&bytes);
}

#[test]
fn exponents_of_weights_are_as_small_as_by_c_zstd() {
    let weights = Rng(3).bf16_weights(1 << 20);
    let exponents: Vec<u8> = weights.chunks(2).map(|pair| pair[1]).collect();
    let ours = frame(&exponents, ZstdCoding::Huffman).len();
    let mut theirs = Vec::new();
    zstn::Engine::new(1).expect("a thread").zstd_encode(
        &exponents,
        ZstdCoding::Huffman,
        &mut theirs,
    );
    assert!(
        ours * 1000 <= theirs.len() * 1001,
        "{ours}, {}",
        theirs.len()
    );
}

#[test]
fn repeated_text_is_found_by_a_search() {
    let text = b"the quick brown fox jumps over the lazy dog; ".repeat(1000);
    let (huffman, search) = both(&text);
    assert!(search * 10 < huffman, "{search} of {huffman}");
}

#[test]
fn a_code_is_used_again_where_it_fits() {
    let mut rng = Rng(4);
    let mut bytes = |len| -> Vec<u8> { rng.bytes(len).iter().map(|b| b & b >> 4).collect() };
    let (one, two) = (bytes(128 << 10), bytes(128 << 10));
    let alone = frame(&one, ZstdCoding::Huffman).len() + frame(&two, ZstdCoding::Huffman).len();
    let together = frame(&[one, two].concat(), ZstdCoding::Huffman).len();
    assert!(together + 8 < alone, "{together} and {alone}");
}

/// Generates byte strings with very different statistics, up to three blocks long.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![4 => 0usize..300, 3 => 0usize..20_000, 1 => 100_000usize..400_000];
    let shape = prop_oneof![
        Just((0u32, 256u32)),
        (0u32..8, 1u32..=256),
        (0u32..30, 2u32..=256),
    ];
    (len, shape, any::<u64>(), 0usize..4).prop_map(|(len, (skew, symbols), seed, runs)| {
        let mut rng = Rng(seed);
        let permutation = rng.next_u64().to_le_bytes()[0] | 1;
        let mut out = Vec::with_capacity(len);
        while out.len() < len {
            // Products of random numbers below one tend to be small.
            let share = (0..=skew).fold(1.0, |share, _| share * rng.unit().sqrt());
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let symbol = (share * f64::from(symbols)) as u8;
            let repeat = match runs {
                0 => 1,
                n => 1 + usize::try_from(rng.next_u64() % (1 << (4 * n))).expect("small"),
            };
            out.resize(
                len.min(out.len() + repeat),
                symbol.wrapping_mul(permutation),
            );
        }
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn both_decoders_give_back_the_input(input in bytes()) {
        both(&input);
    }

    #[test]
    fn any_bytes_survive(input in proptest::collection::vec(any::<u8>(), 0..600)) {
        both(&input);
    }
}
