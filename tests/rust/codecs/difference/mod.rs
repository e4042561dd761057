//! Difference frames (`ZXD1`): golden vectors, round trips, ranges, and damage.

mod damage;
mod ranges;
mod round_trips;
mod vectors;

use zstn_core::TensorRef;
use zstn_core::dtype::Dtype;
use zstn_core::engine::PackEngine;
use zstn_core::frame::difference::{Difference, encode};
use zstn_core::frame::select::{Effort, EncodeOptions};
use zstn_core::pure::Pure;
use zstn_core::{Error, Result};
use zstn_tests::rng::Rng;

const DTYPES: [Dtype; 3] = [Dtype::Bf16, Dtype::F16, Dtype::F32];

fn native() -> zstn::Engine {
    zstn::Engine::new(2).expect("two threads")
}

fn frame(
    engine: &impl PackEngine,
    dtype: Dtype,
    shape: &[u64],
    base: &[u8],
    current: &[u8],
) -> Vec<u8> {
    let tensor = TensorRef::new(current, dtype, shape);
    let options = EncodeOptions::new(Effort::Balanced);
    encode(engine, tensor, base, options).expect("a tensor of floats")
}

fn decode(frame: &[u8], base: &[u8]) -> Result<Vec<u8>> {
    Difference::parse(frame)?.decode(&Pure, base)
}

fn refusal(frame: &[u8], base: &[u8]) -> Error {
    decode(frame, base).expect_err("a damaged frame")
}

/// Returns little-endian weights and the same weights after training. The magnitude of
/// the changes differs between runs of 100 elements.
fn trained(rng: &mut Rng, dtype: Dtype, count: usize, change: f64) -> (Vec<u8>, Vec<u8>) {
    let mut base = Vec::new();
    let mut current = Vec::new();
    for i in 0..count {
        let scale = f64::from(1 + u32::try_from(i / 100 % 7).expect("small"));
        let weight = rng.normal(0.02);
        let moved = weight + rng.normal(0.02) * scale * change;
        base.extend(element(dtype, weight));
        current.extend(element(dtype, moved));
    }
    (base, current)
}

/// Encodes a float. For 16-bit dtypes, the value is truncated rather than rounded.
#[allow(clippy::cast_possible_truncation)]
fn element(dtype: Dtype, value: f64) -> Vec<u8> {
    let bits = (value as f32).to_bits();
    match dtype {
        Dtype::F32 => bits.to_le_bytes().to_vec(),
        Dtype::Bf16 => ((bits >> 16) as u16).to_le_bytes().to_vec(),
        _ => {
            let magnitude = ((bits & 0x7FFF_FFFF) >> 13).saturating_sub(112 << 10);
            ((bits >> 16 & 0x8000) as u16 | magnitude.min(0x7BFF) as u16)
                .to_le_bytes()
                .to_vec()
        }
    }
}
