//! `Z4AI` frames: every transform with every plane method.

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

use crate::content::{self, Buffer, Element, Pattern};
use crate::way::{Case, Way, engine};

/// What the packer may ask for.
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
        wide: false,
        search_outliers_below: 0,
    }
}

/// A method with all it leaves open, used even where storing is smaller.
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

/// The frame in which plane `i` is coded as `codings[i mod len]` says.
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
        // Nothing but storing is defined for an empty plane.
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

pub fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    for transform in transforms() {
        let item_bytes = transform.item_bytes();
        for coding in CODINGS {
            ways.push(Way::new(
                format!("Z4AI, {}, {coding:?}", name(transform)),
                content::anchors(),
                match coding {
                    Coding::Zstd(ZstdCoding::Search(19)) => {
                        content::short_buffers(item_bytes, 1 << 17)
                    }
                    _ => content::buffers(item_bytes),
                },
                move |buffer| assemble(buffer.bytes(), transform, &[coding]),
            ));
        }
        for (recipe_name, recipe) in RECIPES {
            ways.push(recipe_way(transform, recipe_name, recipe));
        }
        ways.push(Way::new(
            format!("Z4AI, {}, a method per plane", name(transform)),
            vec![(content::compressible(30_000), CODINGS.to_vec())],
            (content::buffers(item_bytes), codings()),
            move |(buffer, codings)| assemble(buffer.bytes(), transform, codings),
        ));
    }
    ways.push(every_width());
    ways.extend([Effort::Fast, Effort::Balanced, Effort::Max].map(chosen));
    ways
}

fn codings() -> impl Strategy<Value = Vec<Coding>> {
    proptest::collection::vec(select(&CODINGS[..]), 1..8)
}

fn recipe_way(transform: Transform, recipe_name: &str, recipe: PlaneRecipe) -> Way {
    let mut anchors = content::anchors();
    // Several blocks of whatever the recipe asks for.
    anchors.push(content::compressible(
        (1_100_000 * transform.item_bytes()).min(content::MOST_BYTES + 200_000),
    ));
    Way::new(
        format!("Z4AI, {}, recipe {recipe_name}", name(transform)),
        anchors,
        content::buffers(transform.item_bytes()),
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

/// Whether some plane is more than stored.
fn is_coded(frame: &[u8]) -> bool {
    z4ai::Frame::parse(frame).is_ok_and(|frame| {
        let mut planes = frame.planes().iter();
        planes.any(|plane| plane.method() != Method::Store)
    })
}

fn every_width() -> Way {
    let anchors = (1..=255u8)
        .map(|width| {
            let len_bytes = usize::from(width) * 31 + usize::from(width / 2);
            (width, content::compressible(len_bytes), CODINGS.to_vec())
        })
        .collect();
    Way::new(
        "Z4AI, byte planes of any width, a method per plane",
        anchors,
        (1..=255u8, content::short_buffers(1, 1 << 16), codings()),
        |(width, buffer, codings)| assemble(buffer.bytes(), Transform::BytePlane(*width), codings),
    )
}

/// What the packer does with a tensor of each dtype.
fn chosen(effort: Effort) -> Way {
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
        (Just(dtype), content::buffers(item_bytes))
    });
    Way::new(
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

/// What a tensor of that dtype holds.
pub fn element(dtype: Option<Dtype>) -> Element {
    match dtype {
        Some(Dtype::Bf16) => Element::Bf16,
        Some(Dtype::F16) => Element::F16,
        Some(Dtype::F32 | Dtype::C64) => Element::F32,
        Some(Dtype::F64) => Element::F64,
        other => Element::Int(other.and_then(Dtype::len_bytes).unwrap_or(1)),
    }
}
