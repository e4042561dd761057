//! Encodes arbitrary bytes as a tensor with every effort, alone and as a difference
//! from a base. Both engines must restore the tensor.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_core::TensorRef;
use zstn_core::dtype::Dtype;
use zstn_core::engine::{Engine, PackEngine};
use zstn_core::frame::difference::{self, Difference};
use zstn_core::frame::select::{Effort, EncodeOptions, encode};
use zstn_core::frame::{decompress, delta};
use zstn_core::pure::Pure;
use zstn_fuzz::{NATIVE, pair};

const EFFORTS: [Effort; 3] = [Effort::Fast, Effort::Balanced, Effort::Max];

fuzz_target!(|input: &[u8]| {
    let Some((&[choice, columns], bytes)) = input.split_first_chunk::<2>() else {
        return;
    };
    let dtype = Dtype::ALL[usize::from(choice >> 3) % Dtype::ALL.len()];
    let effort = EFFORTS[usize::from(choice & 3) % EFFORTS.len()];
    let options = EncodeOptions::new(effort).extended(choice & 4 != 0);
    let (base, current) = pair(bytes).unwrap_or((&[], bytes));
    let width = dtype.len_bytes().unwrap_or(1);
    let current = &current[..current.len() / width * width];
    let elements = (current.len() / width) as u64;
    let columns = u64::from(columns).max(1);
    let shape = match elements.is_multiple_of(columns) {
        true => vec![elements / columns, columns],
        false => vec![elements],
    };
    let tensor = TensorRef::new(current, dtype, &shape);
    all(&*NATIVE, tensor, base, options);
    all(&Pure, tensor, base, options);
});

fn all(engine: &impl PackEngine, tensor: TensorRef, base: &[u8], options: EncodeOptions) {
    let frame = encode(engine, tensor, options);
    both(tensor.bytes, |reader| match reader {
        Reader::C => decompress(&*NATIVE, &frame, u64::MAX),
        Reader::Rust => decompress(&Pure, &frame, u64::MAX),
    });
    let Some(base) = base.get(..tensor.bytes.len()) else {
        return;
    };
    let blob = delta::encode(engine, tensor, base, options).expect("a base of this length");
    both(tensor.bytes, |reader| match reader {
        Reader::C => decode_delta(&*NATIVE, &blob, base),
        Reader::Rust => decode_delta(&Pure, &blob, base),
    });
    if let Some(frame) = difference::encode(engine, tensor, base, options) {
        both(tensor.bytes, |reader| match reader {
            Reader::C => Difference::parse(&frame)?.decode(&*NATIVE, base),
            Reader::Rust => Difference::parse(&frame)?.decode(&Pure, base),
        });
    }
}

enum Reader {
    C,
    Rust,
}

fn both(expected: &[u8], decode: impl Fn(Reader) -> zstn_core::Result<Vec<u8>>) {
    for reader in [Reader::C, Reader::Rust] {
        assert!(decode(reader).expect("our own frame") == expected);
    }
}

fn decode_delta(engine: &impl Engine, blob: &[u8], base: &[u8]) -> zstn_core::Result<Vec<u8>> {
    delta::Delta::parse(blob)?.decode(engine, base)
}
zstn_fuzz::keep_lengths!();
