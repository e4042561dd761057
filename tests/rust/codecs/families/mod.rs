//! The frame families other than `Z4AI`: golden vectors with both engines, worked
//! examples, round trips of every encoder, and damage.

mod damage;
mod examples;
mod round_trips;
mod vectors;

use zstn_core::engine::ZstdCoding;
use zstn_core::frame::{decompress, zara};
use zstn_core::pure::Pure;
use zstn_core::transform::FloatFormat;

const CODINGS: [ZstdCoding; 2] = [ZstdCoding::Huffman, ZstdCoding::Search(3)];

fn native() -> zstn::Engine {
    zstn::Engine::new(2).expect("two threads")
}

/// Returns the input of the worked examples: ten elements and an extra byte.
fn example() -> Vec<u8> {
    let words = [0u16, 0x3F80, 0, 0, 0xBF80, 0x3F80, 0, 0x1234, 0x8000, 0];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.push(0x99);
    bytes
}

fn float(name: &str) -> FloatFormat {
    FloatFormat::by_name(name.as_bytes()).expect("a float format")
}

fn bit_pack(name: &str) -> zara::ZaraTransform {
    zara::ZaraTransform::BitPack(float(name))
}

fn comes_back(engine: &zstn::Engine, frame: &[u8], bytes: &[u8]) {
    let limit = bytes.len() as u64;
    assert!(decompress(&Pure, frame, limit).expect("decodes") == bytes);
    assert!(decompress(engine, frame, limit).expect("decodes") == bytes);
}
