//! rANS planes (docs/formats/z4ai-frames.md 5 to 8): round trips, and rejection of
//! damage.

mod damage;
mod round_trips;

use zstn_core::Result;
use zstn_core::engine::Engine;
use zstn_core::entropy::rans::{
    Adaptive, Order1, Shared, encode_adaptive, encode_order1, encode_shared,
};
use zstn_core::frame::decompress;
use zstn_core::frame::plane::{self, Method};
use zstn_core::pure::Pure;
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
fn frame(method: Method, len_bytes: u64, payload: &[u8]) -> Vec<u8> {
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

fn native() -> zstn::Engine {
    zstn::Engine::new(2).expect("two threads")
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
