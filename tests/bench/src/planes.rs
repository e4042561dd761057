//! Stages that split tensors into planes and join them again, and that encode and
//! decode single planes.

use std::hint::black_box;

use zstd::zstd_safe::{CCtx, CParameter, DCtx, ParamSwitch};
use zstn_core::engine::{Engine, PackEngine, ZstdCoding};
use zstn_core::entropy::rans::{
    Adaptive, Order1, Shared, encode_adaptive, encode_order1, encode_shared,
};
use zstn_core::pure::Pure;
use zstn_core::transform::{byteplane, palette, sparse};

use crate::{BF16, F16, F32, Float};
use crate::{OneThread, Stage, Work};

/// Returns the stages that split and join byte planes and bit fields.
#[must_use]
pub fn planes() -> Vec<Stage> {
    let byte_planes = [BF16, F32].map(|float| [split_bytes(float), join_bytes(float)]);
    let bit_fields = [BF16, F16, F32].map(|float| [split_fields(float), join_fields(float)]);
    byte_planes
        .into_iter()
        .chain(bit_fields)
        .flatten()
        .collect()
}

fn split_bytes(float: Float) -> Stage {
    let width = float.format.item_bytes;
    Stage::new(
        format!("byte planes, {}: split", float.name),
        move |tensor_bytes| {
            let tensor = float.tensor(tensor_bytes);
            let mut planes = vec![vec![0; tensor.len() / width]; width];
            Work::new(tensor.len(), move || {
                for (number, plane) in planes.iter_mut().enumerate() {
                    byteplane::split(black_box(&tensor), width, number, 0, plane);
                }
                black_box(&planes);
            })
        },
    )
}

fn join_bytes(float: Float) -> Stage {
    let width = float.format.item_bytes;
    Stage::new(
        format!("byte planes, {}: join", float.name),
        move |tensor_bytes| {
            let mut tensor = float.tensor(tensor_bytes);
            let planes: Vec<Vec<u8>> = (0..width)
                .map(|number| {
                    let mut plane = vec![0; tensor.len() / width];
                    byteplane::split(&tensor, width, number, 0, &mut plane);
                    plane
                })
                .collect();
            Work::new(tensor.len(), move || {
                let views: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
                byteplane::join(black_box(&views), &mut tensor);
                black_box(&tensor);
            })
        },
    )
}

fn split_fields(float: Float) -> Stage {
    Stage::new(
        format!("bit fields, {}: split", float.name),
        move |tensor_bytes| {
            let tensor = float.tensor(tensor_bytes);
            let mut planes = float.planes(&tensor);
            Work::new(tensor.len(), move || {
                for (number, plane) in planes.iter_mut().enumerate() {
                    float.format.split(black_box(&tensor), number, 0, plane);
                }
                black_box(&planes);
            })
        },
    )
}

fn join_fields(float: Float) -> Stage {
    Stage::new(
        format!("bit fields, {}: join", float.name),
        move |tensor_bytes| {
            let mut tensor = float.tensor(tensor_bytes);
            let planes = float.planes(&tensor);
            Work::new(tensor.len(), move || {
                let views = planes.each_ref().map(Vec::as_slice);
                let fields = float.format.fields(black_box(views));
                float.format.join(&fields, &mut tensor).expect("in range");
                black_box(&tensor);
            })
        },
    )
}

/// Returns the stages for palettes and sparse elements of floats.
#[must_use]
pub fn structured() -> Vec<Stage> {
    let stages = [BF16, F32].map(|float| {
        [
            split_palette(float),
            join_palette(float),
            split_sparse(float),
            join_sparse(float),
        ]
    });
    stages.into_iter().flatten().collect()
}

fn split_palette(float: Float) -> Stage {
    let width = float.format.item_bytes;
    Stage::new(
        format!("palette, {}: split", float.name),
        move |tensor_bytes| {
            let tensor = float.tensor_of_few_values(tensor_bytes);
            Work::new(tensor.len(), move || {
                black_box(palette::split(black_box(&tensor), width, 256));
            })
        },
    )
}

fn join_palette(float: Float) -> Stage {
    let width = float.format.item_bytes;
    Stage::new(
        format!("palette, {}: join", float.name),
        move |tensor_bytes| {
            let mut tensor = float.tensor_of_few_values(tensor_bytes);
            let (values, index) = palette::split(&tensor, width, 256).expect("few values");
            let bytes = values.iter().map(|value| value.to_le_bytes());
            let codebook: Vec<u8> = bytes
                .flat_map(|value| value.into_iter().take(width))
                .collect();
            Work::new(tensor.len(), move || {
                palette::join(black_box(&index), 1, &codebook, width, &mut tensor)
                    .expect("within the codebook");
                black_box(&tensor);
            })
        },
    )
}

fn split_sparse(float: Float) -> Stage {
    let width = float.format.item_bytes;
    Stage::new(
        format!("sparse, {}: split", float.name),
        move |tensor_bytes| {
            let tensor = float.tensor_half_zero(tensor_bytes);
            Work::new(tensor.len(), move || {
                black_box(sparse::split(black_box(&tensor), width));
            })
        },
    )
}

fn join_sparse(float: Float) -> Stage {
    let width = float.format.item_bytes;
    Stage::new(
        format!("sparse, {}: join", float.name),
        move |tensor_bytes| {
            let mut tensor = float.tensor_half_zero(tensor_bytes);
            let (bitmap, values) = sparse::split(&tensor, width);
            Work::new(tensor.len(), move || {
                sparse::join(black_box(&bitmap), &values, width, &mut tensor);
                black_box(&tensor);
            })
        },
    )
}

/// Length in bytes of the plane data in one zstd frame of a packed file.
const FRAME_BYTES: usize = 256 << 10;

/// Length in bytes of a chunk that shares one table of adaptive rANS.
const CHUNK_BYTES: usize = 64 << 10;

/// A plane of bfloat16 that is coded separately.
#[derive(Debug, Clone, Copy)]
enum Plane {
    Exponents,
    /// Seven bits per element, nearly uniform.
    Mantissas,
}

impl Plane {
    fn name(self) -> &'static str {
        match self {
            Self::Exponents => "exponents",
            Self::Mantissas => "mantissas",
        }
    }

    fn of(self, tensor_bytes: usize) -> Vec<u8> {
        let [_, exponents, mantissas] = BF16.planes(&BF16.tensor(tensor_bytes));
        match self {
            Self::Exponents => exponents,
            Self::Mantissas => mantissas,
        }
    }
}

/// Returns the stages for Huffman codes in zstd frames, encoded by the core's coder and
/// decoded by both engines, and for every variant of rANS.
#[must_use]
pub fn coders() -> Vec<Stage> {
    let mut stages = Vec::new();
    for plane in [Plane::Exponents, Plane::Mantissas] {
        stages.push(encoding("Huffman", plane, "encode", by_us));
        stages.push(decoding("Huffman", plane, "decode, Pure", by_us, || {
            |frame: &[u8], out: &mut [u8]| Pure.zstd_decode(frame, out).expect("our frame")
        }));
        stages.push(decoding("Huffman", plane, "decode, Native", by_us, || {
            let engine = OneThread::new();
            move |frame: &[u8], out: &mut [u8]| engine.zstd_decode(frame, out).expect("our frame")
        }));
    }
    for kind in [Rans::Shared, Rans::Adaptive, Rans::Order1] {
        stages.push(kind.encoding());
        stages.push(kind.decoding());
    }
    stages
}

/// Returns the stages for C zstd on the same planes, for comparison.
#[must_use]
pub fn peers() -> Vec<Stage> {
    let mut stages = Vec::new();
    for plane in [Plane::Exponents, Plane::Mantissas] {
        stages.push(encoding("C zstd, literals", plane, "encode", by_c));
        let decode = || {
            let mut context = DCtx::create();
            move |frame: &[u8], out: &mut [u8]| {
                let len = context.decompress(out, frame).expect("its own frame");
                assert_eq!(len, out.len());
            }
        };
        stages.push(decoding("C zstd, literals", plane, "decode", by_c, decode));
    }
    stages
}

fn by_us(block: &[u8], out: &mut Vec<u8>) {
    Pure.zstd_encode(block, ZstdCoding::Huffman, out);
}

/// Compresses with the fastest level, which finds almost no matches but uses Huffman
/// codes.
fn by_c(block: &[u8], out: &mut Vec<u8>) {
    thread_local! {
        static CONTEXT: std::cell::RefCell<CCtx<'static>> = std::cell::RefCell::new(CCtx::create());
    }
    CONTEXT.with_borrow_mut(|context| {
        for parameter in [
            CParameter::CompressionLevel(-131_072),
            CParameter::LiteralCompressionMode(ParamSwitch::Enable),
        ] {
            context.set_parameter(parameter).expect("a parameter");
        }
        let start = out.len();
        out.resize(start + zstd::zstd_safe::compress_bound(block.len()), 0);
        let len = context.compress2(&mut out[start..], block).expect("room");
        out.truncate(start + len);
    });
}

fn encoding(
    coder: &str,
    plane: Plane,
    what: &str,
    encode: impl Fn(&[u8], &mut Vec<u8>) + Copy + Send + Sync + 'static,
) -> Stage {
    let name = format!("{coder}, {}: {what}", plane.name());
    Stage::new(name, move |tensor_bytes| {
        let plane = plane.of(tensor_bytes);
        let mut out = Vec::with_capacity(2 * plane.len());
        Work::new(plane.len(), move || {
            out.clear();
            for block in black_box(&plane).chunks(FRAME_BYTES) {
                encode(block, &mut out);
            }
            black_box(&out);
        })
    })
}

fn decoding<D: FnMut(&[u8], &mut [u8]) + 'static>(
    coder: &str,
    plane: Plane,
    what: &str,
    encode: impl Fn(&[u8], &mut Vec<u8>) + Copy + Send + Sync + 'static,
    decoder: impl Fn() -> D + Send + Sync + 'static,
) -> Stage {
    let name = format!("{coder}, {}: {what}", plane.name());
    Stage::new(name, move |tensor_bytes| {
        let mut plane = plane.of(tensor_bytes);
        let frames: Vec<Vec<u8>> = plane
            .chunks(FRAME_BYTES)
            .map(|block| {
                let mut frame = Vec::new();
                encode(block, &mut frame);
                frame
            })
            .collect();
        let mut decode = decoder();
        Work::new(plane.len(), move || {
            for (frame, out) in black_box(&frames).iter().zip(plane.chunks_mut(FRAME_BYTES)) {
                decode(frame, out);
            }
            black_box(&plane);
        })
    })
}

#[derive(Clone, Copy)]
enum Rans {
    Shared,
    Adaptive,
    Order1,
}

impl Rans {
    fn name(self) -> &'static str {
        match self {
            Self::Shared => "rANS",
            Self::Adaptive => "rANS adaptive",
            Self::Order1 => "rANS order 1",
        }
    }

    fn encode(self, engine: &OneThread, plane: &[u8]) -> Vec<u8> {
        match self {
            Self::Shared => encode_shared(engine, plane),
            Self::Adaptive => encode_adaptive(engine, plane, CHUNK_BYTES),
            Self::Order1 => encode_order1(engine, plane),
        }
    }

    fn decode(self, payload: &[u8], out: &mut [u8]) -> zstn_core::Result<()> {
        let len = out.len() as u64;
        match self {
            Self::Shared => Shared::parse(payload, len)?.decode(&Pure, out),
            Self::Adaptive => Adaptive::parse(payload, len)?.decode(&Pure, out),
            Self::Order1 => Order1::parse(payload, len)?.decode(&Pure, out),
        }
    }

    fn encoding(self) -> Stage {
        let name = format!("{}, exponents: encode", self.name());
        Stage::new(name, move |tensor_bytes| {
            let engine = OneThread::new();
            let plane = Plane::Exponents.of(tensor_bytes);
            Work::new(plane.len(), move || {
                black_box(self.encode(&engine, black_box(&plane)));
            })
        })
    }

    fn decoding(self) -> Stage {
        let name = format!("{}, exponents: decode", self.name());
        Stage::new(name, move |tensor_bytes| {
            let mut plane = Plane::Exponents.of(tensor_bytes);
            let payload = self.encode(&OneThread::new(), &plane);
            Work::new(plane.len(), move || {
                self.decode(black_box(&payload), &mut plane)
                    .expect("our payload");
                black_box(&plane);
            })
        })
    }
}
