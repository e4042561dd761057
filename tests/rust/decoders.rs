//! zstd decoders side by side on the exponents of a checkpoint of bfloat16,
//! coded by Huffman codes alone:
//!
//! ```sh
//! cargo run --release -p zstn-tests --example decoders -- MODEL.safetensors
//! valgrind --tool=callgrind target/release/examples/decoders MODEL.safetensors ours
//! ```
//!
//! With the name of a decoder, only that one runs, and once.

use std::time::Instant;

use ruzstd::decoding::FrameDecoder;
use zstn::Native;
use zstn_core::engine::{Engine, PackEngine, Pure, ZstdCoding};

const BLOCK_BYTES: usize = 1 << 20;
const ROUNDS: usize = 15;

type Decoder = (&'static str, Box<dyn Fn(&[u8], &mut [u8])>);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("a safetensors file");
    let only = arguments.next();
    let file = std::fs::read(path).expect("a file that can be read");
    let header = u64::from_le_bytes(file[..8].try_into().expect("eight bytes"));
    let elements = file[8 + usize::try_from(header).expect("in memory")..].as_chunks::<2>();
    let exponents: Vec<u8> = elements
        .0
        .iter()
        .map(|[low, high]| high << 1 | low >> 7)
        .collect();

    let native = Native::new(1).expect("a thread");
    let frames: Vec<(Vec<u8>, usize)> = exponents
        .chunks(BLOCK_BYTES)
        .map(|block| {
            let mut frame = Vec::new();
            native.zstd_encode(block, ZstdCoding::Huffman, &mut frame);
            (frame, block.len())
        })
        .collect();
    let decoders: [Decoder; 3] = [
        (
            "ours",
            Box::new(|frame, out| Pure.zstd_decode(frame, out).expect("decoded")),
        ),
        (
            "C",
            Box::new(move |frame, out| native.zstd_decode(frame, out).expect("decoded")),
        ),
        (
            "ruzstd",
            Box::new(|frame, out| {
                let len = FrameDecoder::new().decode_all(frame, out).expect("decoded");
                assert_eq!(len, out.len());
            }),
        ),
    ];
    let mut out = vec![0; BLOCK_BYTES];
    let mut seconds = decoders.each_ref().map(|_| Vec::new());
    for _ in 0..if only.is_some() { 1 } else { ROUNDS } {
        for ((name, decode), seconds) in decoders.iter().zip(&mut seconds) {
            if only.as_deref().is_some_and(|only| only != *name) {
                continue;
            }
            let start = Instant::now();
            for (frame, len) in &frames {
                decode(frame, &mut out[..*len]);
            }
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    let stored: usize = frames.iter().map(|(frame, _)| frame.len()).sum();
    println!("{} bytes from {stored}", exponents.len());
    for ((name, _), mut seconds) in decoders.iter().zip(seconds) {
        seconds.sort_by(f64::total_cmp);
        if let Some(median) = seconds.get(seconds.len() / 2) {
            #[allow(clippy::cast_precision_loss)]
            let rate = exponents.len() as f64 / median / 1e6;
            println!("{name:8} {rate:6.0} MB/s");
        }
    }
}
