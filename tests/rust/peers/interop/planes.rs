//! `Z4AI` frames with every combination of transform and plane method.

use proptest::prelude::*;
use proptest::sample::select;
use zstn_core::TensorRef;
use zstn_core::dtype::Dtype;
use zstn_core::engine::{PackEngine, ZstdCoding};
use zstn_core::entropy::{blocks, rans};
use zstn_core::frame::FrameFamily as _;
use zstn_core::frame::plane::{self, Method};
use zstn_core::frame::select::{Effort, encode as choose};
use zstn_core::frame::z4ai::{self, BlockCodecs, PlaneCoder, PlaneRecipe, Recipe, Transform};
use zstn_core::transform::FloatFormat;

use crate::random_buffers::{self, Buffer, Element, Pattern};
use crate::{Case, Encoding, engine};

/// The plane methods of the packer.
const RECIPES: [(&str, PlaneRecipe); 8] = [
    ("store", PlaneRecipe::Store),
    ("Huffman", PlaneRecipe::Blocks(zstd(true, None))),
    (
        "search",
        PlaneRecipe::Blocks(zstd(false, Some(ZstdCoding::Search(3)))),
    ),
    (
        "Huffman or search",
        PlaneRecipe::Blocks(zstd(true, Some(ZstdCoding::Search(12)))),
    ),
    (
        "long search",
        PlaneRecipe::Smallest(&[z4ai::Codec::Zstd(ZstdCoding::Long(3))]),
    ),
    ("rANS", PlaneRecipe::Smallest(&[z4ai::Codec::Rans])),
    (
        "rANS, small chunks",
        PlaneRecipe::Smallest(&[z4ai::Codec::RansAdaptive(1000)]),
    ),
    (
        "Huffman or rANS",
        PlaneRecipe::PreferFast {
            codecs: &[
                z4ai::Codec::Blocks(zstd(true, None)),
                z4ai::Codec::RansAdaptive(1 << 16),
                z4ai::Codec::RansOrder1,
            ],
            min_gain_divisor: 200,
        },
    ),
];

const fn zstd(huffman: bool, search: Option<ZstdCoding>) -> BlockCodecs {
    BlockCodecs {
        huffman,
        search,
        search_block_bytes: z4ai::SEARCH_BLOCK_BYTES,
        search_outliers_below: 0,
    }
}

/// A method with its parameters, which is used even where storing would be smaller.
#[derive(Debug, Clone, Copy)]
enum Coding {
    Store,
    Zstd(ZstdCoding),
    Blocks(ZstdCoding, u32),
    Rans,
    RansAdaptive,
    RansOrder1,
}

const CODINGS: [Coding; 10] = [
    Coding::Store,
    Coding::Zstd(ZstdCoding::Huffman),
    Coding::Zstd(ZstdCoding::Search(1)),
    Coding::Zstd(ZstdCoding::Search(19)),
    Coding::Blocks(ZstdCoding::Huffman, 1 << 16),
    Coding::Blocks(ZstdCoding::Search(3), 4097),
    Coding::Blocks(ZstdCoding::Search(3), u32::MAX),
    Coding::Rans,
    Coding::RansAdaptive,
    Coding::RansOrder1,
];

impl Coding {
    fn method(self) -> Method {
        match self {
            Self::Store => Method::Store,
            Self::Zstd(_) => Method::Zstd,
            Self::Blocks(..) => Method::Blocks,
            Self::Rans => Method::Rans,
            Self::RansAdaptive => Method::RansAdaptive,
            Self::RansOrder1 => Method::RansOrder1,
        }
    }

    fn payload(self, raw: &[u8]) -> Vec<u8> {
        let zstd = |raw: &[u8], coding| {
            let mut out = Vec::new();
            engine().zstd_encode(raw, coding, &mut out);
            out
        };
        match self {
            Self::Store => raw.to_vec(),
            Self::Zstd(coding) => zstd(raw, coding),
            Self::Blocks(coding, block_bytes) => {
                let parts: Vec<Vec<u8>> = raw
                    .chunks(block_bytes as usize)
                    .map(|part| zstd(part, coding))
                    .collect();
                let lens: Vec<u32> = parts
                    .iter()
                    .map(|part| u32::try_from(part.len()).expect("short"))
                    .collect();
                let mut out = blocks::table(block_bytes, &lens);
                out.extend(parts.concat());
                out
            }
            Self::Rans => rans::encode_shared(engine(), raw),
            Self::RansAdaptive => rans::encode_adaptive(engine(), raw, 1 << 16),
            Self::RansOrder1 => rans::encode_order1(engine(), raw),
        }
    }
}

fn formats() -> [FloatFormat; 3] {
    ["bfloat16", "float16", "float32"]
        .map(|name| FloatFormat::by_name(name.as_bytes()).expect("a float format"))
}

fn name(transform: Transform) -> String {
    match transform {
        Transform::Opaque => "opaque".into(),
        Transform::BytePlane(width) => format!("byte planes {width}"),
        Transform::BitField(format) => format!("bit fields {}", format.name),
        other => other.name().into(),
    }
}

fn transforms() -> Vec<Transform> {
    let planes = [1, 2, 3, 4, 8, 16].map(Transform::BytePlane);
    let fields = formats().map(Transform::BitField);
    [&[Transform::Opaque][..], &planes, &fields].concat()
}

/// Builds a frame and codes plane `i` with `codings[i mod len]`.
fn assemble(bytes: Vec<u8>, transform: Transform, codings: &[Coding]) -> Case {
    let stored = Recipe {
        transform,
        planes: vec![PlaneRecipe::Store; 256],
    };
    let (planes, tail) = PlaneCoder::all(&bytes, &stored);
    let mut frame = z4ai::head(transform, tail);
    for (plane, &coding) in planes.iter().zip(codings.iter().cycle()) {
        let mut raw = vec![0; plane.len_bytes()];
        plane.extract(0, &mut raw);
        // An empty plane can only be stored.
        let coding = if raw.is_empty() {
            Coding::Store
        } else {
            coding
        };
        let payload = coding.payload(&raw);
        plane::write(&mut frame, coding.method(), raw.len() as u64, &payload);
    }
    Case::frame(bytes, frame)
}

pub fn encodings() -> Vec<Encoding> {
    let mut encodings = Vec::new();
    for transform in transforms() {
        let item_bytes = transform.item_bytes();
        for coding in CODINGS {
            encodings.push(Encoding::new(
                format!("Z4AI, {}, {coding:?}", name(transform)),
                random_buffers::anchors(),
                match coding {
                    Coding::Zstd(ZstdCoding::Search(19)) => {
                        random_buffers::short_buffers(item_bytes, 1 << 17)
                    }
                    _ => random_buffers::buffers(item_bytes),
                },
                move |buffer| assemble(buffer.bytes(), transform, &[coding]),
            ));
        }
        for (recipe_name, recipe) in RECIPES {
            encodings.push(recipe_encoding(transform, recipe_name, recipe));
        }
        encodings.push(Encoding::new(
            format!("Z4AI, {}, a method per plane", name(transform)),
            vec![(random_buffers::compressible(30_000), CODINGS.to_vec())],
            (random_buffers::buffers(item_bytes), codings()),
            move |(buffer, codings)| assemble(buffer.bytes(), transform, codings),
        ));
    }
    encodings.push(every_width());
    encodings.extend([Effort::Fast, Effort::Balanced, Effort::Max].map(chosen));
    encodings
}

fn codings() -> impl Strategy<Value = Vec<Coding>> {
    proptest::collection::vec(select(&CODINGS[..]), 1..8)
}

fn recipe_encoding(transform: Transform, recipe_name: &str, recipe: PlaneRecipe) -> Encoding {
    let mut anchors = random_buffers::anchors();
    // This input has several blocks with every recipe.
    anchors.push(random_buffers::compressible(
        (1_100_000 * transform.item_bytes()).min(random_buffers::MOST_BYTES + 200_000),
    ));
    Encoding::new(
        format!("Z4AI, {}, recipe {recipe_name}", name(transform)),
        anchors,
        random_buffers::buffers(transform.item_bytes()),
        move |buffer| {
            let bytes = buffer.bytes();
            let asked = Recipe {
                transform,
                planes: vec![recipe; 256],
            };
            let frame = z4ai::encode(engine(), &bytes, &asked);
            let forced = recipe == PlaneRecipe::Store || is_coded(&frame);
            Case {
                forced,
                ..Case::frame(bytes, frame)
            }
        },
    )
}

/// Returns whether at least one plane is coded rather than stored.
fn is_coded(frame: &[u8]) -> bool {
    z4ai::Frame::parse(frame).is_ok_and(|frame| {
        let mut planes = frame.planes().iter();
        planes.any(|plane| plane.method() != Method::Store)
    })
}

fn every_width() -> Encoding {
    let anchors = (1..=255u8)
        .map(|width| {
            let len_bytes = usize::from(width) * 31 + usize::from(width / 2);
            (
                width,
                random_buffers::compressible(len_bytes),
                CODINGS.to_vec(),
            )
        })
        .collect();
    Encoding::new(
        "Z4AI, byte planes of any width, a method per plane",
        anchors,
        (
            1..=255u8,
            random_buffers::short_buffers(1, 1 << 16),
            codings(),
        ),
        |(width, buffer, codings)| assemble(buffer.bytes(), Transform::BytePlane(*width), codings),
    )
}

/// Returns an encoding that uses the packer's choice for a tensor of each dtype.
fn chosen(effort: Effort) -> Encoding {
    let dtypes = || Dtype::ALL.into_iter().map(Some).chain([None]);
    let anchors = dtypes()
        .flat_map(|dtype| {
            [Pattern::Weights, Pattern::Sparse(90), Pattern::Few(7)].map(|pattern| {
                let buffer = Buffer {
                    element: element(dtype),
                    pattern,
                    len_bytes: 20_001,
                    seed: 2,
                };
                (dtype, buffer)
            })
        })
        .collect();
    let inputs = select(dtypes().collect::<Vec<_>>()).prop_flat_map(|dtype| {
        let item_bytes = dtype.and_then(Dtype::len_bytes).unwrap_or(1);
        (Just(dtype), random_buffers::buffers(item_bytes))
    });
    Encoding::new(
        format!("a tensor, {effort:?}"),
        anchors,
        inputs,
        move |(dtype, buffer)| {
            let bytes = buffer.bytes();
            let frame = choose(engine(), TensorRef::flat(&bytes, *dtype), effort);
            Case::frame(bytes, frame)
        },
    )
}

/// Returns the element type of a dtype.
pub fn element(dtype: Option<Dtype>) -> Element {
    match dtype {
        Some(Dtype::Bf16) => Element::Bf16,
        Some(Dtype::F16) => Element::F16,
        Some(Dtype::F32 | Dtype::C64) => Element::F32,
        Some(Dtype::F64) => Element::F64,
        other => Element::Int(other.and_then(Dtype::len_bytes).unwrap_or(1)),
    }
}
