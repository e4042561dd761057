//! Compares zstd decoders on the planes of a bfloat16 checkpoint that are coded with
//! Huffman codes alone, and prints a Markdown table:
//!
//! ```sh
//! cargo run --release -p zstn-bench --example decoders -- MODEL.safetensors
//! ```
//!
//! Without a model, it uses a synthetic tensor. `--write FOLDER` saves planes and
//! frames for the decoders that `cargo xtask decoders` runs in Node.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ruzstd::decoding::FrameDecoder;
use zstn_bench::BF16;
use zstn_core::dtype::Dtype;
use zstn_core::engine::{Engine, PackEngine, ZstdCoding};
use zstn_core::pure::Pure;
use zstn_tests::checkpoints::Checkpoint;

/// Length in bytes of the plane data in one frame of a packed file.
const FRAME_BYTES: usize = 256 << 10;
const SYNTHETIC_BYTES: usize = 32 << 20;
const ROUNDS: usize = 15;

/// The function of a decoder.
type Decode = Box<dyn FnMut(&[u8], &mut [u8])>;

fn main() {
    let (mut model, mut folder) = (None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--write" => folder = Some(PathBuf::from(arguments.next().expect("a folder"))),
            _ => model = Some(argument),
        }
    }
    let tensor = match model {
        Some(path) => weights(&fs::read(path).expect("a file that can be read")),
        None => BF16.tensor(SYNTHETIC_BYTES),
    };
    let [_, exponents, mantissas] = BF16.planes(&tensor);
    drop(tensor);
    let planes = [("exponents", exponents), ("mantissas", mantissas)]
        .map(|(name, bytes)| Plane::new(name, bytes));
    if let Some(folder) = folder {
        for plane in &planes {
            plane.write(&folder);
        }
    }

    let mut decoders: [(&str, Decode); 3] = [
        ("ours", Box::new(by_us)),
        ("C zstd", by_c()),
        ("ruzstd", Box::new(by_ruzstd)),
    ];
    let rates = planes.each_ref().map(|plane| plane.rates(&mut decoders));
    let title = |plane: &Plane| format!("{}, {:.3} of it | × C", plane.name, plane.ratio());
    println!("| native | {} |", planes.each_ref().map(title).join(" | "));
    println!("|---|--:|--:|--:|--:|");
    for (number, (name, _)) in decoders.iter().enumerate() {
        let cells = rates.each_ref().map(|rates| {
            let by_c = ratio(&rates[number], &rates[1]);
            format!("{:.0} MB/s | {by_c:.2}", median(rates[number].clone()))
        });
        println!("| {name} | {} |", cells.join(" | "));
    }
}

/// Returns the bfloat16 tensors of a safetensors file, concatenated.
fn weights(file: &[u8]) -> Vec<u8> {
    let checkpoint = Checkpoint::parse(file);
    let tensors = checkpoint.header.tensors.iter();
    let tensors = tensors.filter(|tensor| tensor.dtype == Dtype::Bf16);
    let weights: Vec<u8> = tensors
        .flat_map(|tensor| checkpoint.tensor(&tensor.name).1.iter().copied())
        .collect();
    assert!(!weights.is_empty(), "there is no tensor of bfloat16");
    weights
}

fn by_us(frame: &[u8], out: &mut [u8]) {
    Pure.zstd_decode(frame, out).expect("decoded");
}

fn by_c() -> Decode {
    let mut context = zstd::zstd_safe::DCtx::create();
    Box::new(move |frame, out| {
        let len = context.decompress(out, frame).expect("decoded");
        assert_eq!(len, out.len());
    })
}

fn by_ruzstd(frame: &[u8], out: &mut [u8]) {
    let len = FrameDecoder::new().decode_all(frame, out).expect("decoded");
    assert_eq!(len, out.len());
}

/// A plane and its frames.
struct Plane {
    name: &'static str,
    bytes: Vec<u8>,
    frames: Vec<Vec<u8>>,
}

impl Plane {
    fn new(name: &'static str, bytes: Vec<u8>) -> Self {
        let native = zstn::Engine::new(1).expect("a thread");
        let frames = bytes.chunks(FRAME_BYTES).map(|block| {
            let mut frame = Vec::new();
            native.zstd_encode(block, ZstdCoding::Huffman, &mut frame);
            frame
        });
        Self {
            name,
            frames: frames.collect(),
            bytes,
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn ratio(&self) -> f64 {
        let stored: usize = self.frames.iter().map(Vec::len).sum();
        stored as f64 / self.bytes.len() as f64
    }

    /// Returns the throughput of every decoder in MB/s, measured in alternating rounds.
    fn rates(&self, decoders: &mut [(&str, Decode)]) -> Vec<Vec<f64>> {
        let mut out = vec![0; self.bytes.len()];
        let mut rates = vec![Vec::new(); decoders.len()];
        for _ in 0..ROUNDS {
            for ((name, decode), rates) in decoders.iter_mut().zip(&mut rates) {
                let started = Instant::now();
                for (frame, out) in self.frames.iter().zip(out.chunks_mut(FRAME_BYTES)) {
                    decode(frame, out);
                }
                let seconds = started.elapsed().as_secs_f64();
                assert!(out == self.bytes, "{name} decodes {} wrongly", self.name);
                out.fill(0);
                #[allow(clippy::cast_precision_loss)]
                rates.push(self.bytes.len() as f64 / seconds / 1e6);
            }
        }
        rates
    }

    /// Writes the plane, and its frames with their lengths.
    fn write(&self, folder: &Path) {
        fs::create_dir_all(folder).expect("a folder");
        let write = |ending: &str, bytes: &[u8]| {
            let path = folder.join(format!("{}.{ending}", self.name));
            fs::write(path, bytes).expect("a file that can be written");
        };
        write("plane", &self.bytes);
        let frames = self.frames.iter();
        let frames = frames.flat_map(|frame| {
            let len = u32::try_from(frame.len()).expect("a short frame");
            [&len.to_le_bytes()[..], frame].concat()
        });
        write("frames", &frames.collect::<Vec<u8>>());
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Returns the median ratio over the rounds.
fn ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    median(
        ours.iter()
            .zip(theirs)
            .map(|(ours, theirs)| ours / theirs)
            .collect(),
    )
}
