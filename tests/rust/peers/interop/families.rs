//! The frame families other than `Z4AI`, with every option of their encoders.

use proptest::prelude::*;
use proptest::sample::select;
use zstn_core::engine::ZstdCoding;
use zstn_core::frame::zara::{self, StreamCodec};
use zstn_core::frame::{chunked, palette, sparse, turbo};
use zstn_core::transform::FloatFormat;

use crate::random_buffers::{self, Buffer, Element, Pattern};
use crate::{Call, Case, Encoding, engine};

const CODINGS: [&[ZstdCoding]; 4] = [
    &[],
    &[ZstdCoding::Huffman],
    &[ZstdCoding::Search(1)],
    &[ZstdCoding::Huffman, ZstdCoding::Search(12)],
];
const TURBO: [turbo::TurboTransform; 2] = [
    turbo::TurboTransform::Opaque,
    turbo::TurboTransform::BytePlane,
];

pub fn encodings() -> Vec<Encoding> {
    let mut encodings = Vec::new();
    for codings in CODINGS {
        for transform in TURBO {
            encodings.extend([1, 2, 4, 8].map(|width| sparse(width, transform, codings)));
            encodings.push(turbo(transform, codings));
        }
        encodings.push(chunked(codings));
        encodings.extend([2, 4, 8].map(|width| any_palette(width, codings)));
    }
    for (width, index_bytes) in [
        (2, 1),
        (4, 1),
        (8, 1),
        (2, 2),
        (4, 2),
        (8, 2),
        (4, 4),
        (8, 4),
    ] {
        encodings.push(palette_of(width, index_bytes));
    }
    for transform in auto_transforms() {
        encodings.extend(codecs().map(|codecs| auto(transform, codecs)));
    }
    encodings
}

/// Returns whether `codings` had an effect: they are empty, or the frame differs from
/// the one encoded without them.
fn forced(codings: &[ZstdCoding], frame: &[u8], without: impl FnOnce() -> Vec<u8>) -> bool {
    codings.is_empty() || frame != without()
}

fn sparse(width: u8, transform: turbo::TurboTransform, codings: &'static [ZstdCoding]) -> Encoding {
    let item_bytes = usize::from(width);
    let few = [0, 50, 99].map(|percent| Buffer {
        element: Element::Int(item_bytes),
        pattern: Pattern::Sparse(percent),
        len_bytes: 9_001,
        seed: 3,
    });
    Encoding::new(
        format!("ZSP1, {width} bytes, {transform:?}, {codings:?}"),
        [&random_buffers::anchors()[..], &few].concat(),
        random_buffers::buffers(item_bytes),
        move |buffer| {
            let bytes = buffer.bytes();
            let encode = |codings| sparse::encode(engine(), &bytes, width, transform, codings);
            let frame = encode(codings);
            let forced = forced(codings, &frame, || encode(&[]));
            Case {
                forced,
                ..Case::frame(bytes, frame)
            }
        },
    )
}

fn turbo(transform: turbo::TurboTransform, codings: &'static [ZstdCoding]) -> Encoding {
    let anchors = [1, 2, 3, 8, 255]
        .into_iter()
        .flat_map(|width| {
            let whole = random_buffers::compressible(usize::from(width) * 900);
            random_buffers::anchors()
                .into_iter()
                .chain([whole])
                .map(move |buffer| (width, buffer))
        })
        .collect();
    let inputs = any::<u8>()
        .prop_filter("byte planes of no bytes", |&width| width > 0)
        .prop_flat_map(|width| {
            let whole = random_buffers::buffers(width.into()).prop_map(move |mut buffer| {
                buffer.len_bytes -= buffer.len_bytes % usize::from(width);
                buffer
            });
            (Just(width), whole)
        });
    Encoding::new(
        format!("ZRT1, {transform:?}, {codings:?}"),
        anchors,
        inputs,
        move |(width, buffer)| {
            let bytes = buffer.bytes();
            let encode = |codings| turbo::encode(engine(), &bytes, *width, transform, codings);
            let frame = encode(codings);
            let forced = forced(codings, &frame, || encode(&[]));
            Case {
                call: Call::Turbo,
                forced,
                ..Case::frame(bytes, frame)
            }
        },
    )
}

fn chunked(codings: &'static [ZstdCoding]) -> Encoding {
    let anchors = [1u8, 2, 3, 4, 8, 16, 255]
        .into_iter()
        .flat_map(|width| {
            let buffers = random_buffers::anchors().into_iter();
            buffers.map(move |buffer| (width, 5000u32, buffer))
        })
        .collect();
    let inputs = (1..=20u8, select(&[100u32, 1 << 16, 1 << 20][..])).prop_flat_map(
        |(width, chunk_bytes)| {
            // The length is limited to avoid thousands of chunks.
            let most_bytes = chunk_bytes as usize * 50;
            let buffers = random_buffers::short_buffers(width.into(), most_bytes);
            (Just(width), Just(chunk_bytes), buffers)
        },
    );
    Encoding::new(
        format!("Z4AIMF01, {codings:?}"),
        anchors,
        inputs,
        move |(width, chunk_bytes, buffer)| {
            let bytes = buffer.bytes();
            let encode = |codings| chunked::encode(engine(), &bytes, *width, *chunk_bytes, codings);
            let frame = encode(codings);
            let forced = forced(codings, &frame, || encode(&[]));
            Case {
                call: Call::Chunked,
                forced,
                ..Case::frame(bytes, frame)
            }
        },
    )
}

/// Offset of the index width in a `ZPL1` frame.
const INDEX_BYTES_AT: usize = 7;

fn palette_case(buffer: &Buffer, width: u8, codings: &[ZstdCoding]) -> Case {
    let bytes = buffer.bytes();
    let frame = palette::encode(engine(), &bytes, width, u32::MAX, codings)
        .expect("a palette of as many values as there are");
    Case::frame(bytes, frame)
}

fn any_palette(width: u8, codings: &'static [ZstdCoding]) -> Encoding {
    Encoding::new(
        format!("ZPL1, {width} bytes, {codings:?}"),
        random_buffers::anchors(),
        random_buffers::buffers(width.into()),
        move |buffer| palette_case(buffer, width, codings),
    )
}

/// Returns an encoding of palettes with enough distinct values to need indices of
/// `index_bytes` bytes.
fn palette_of(width: u8, index_bytes: u8) -> Encoding {
    let (counts, least_len) = match index_bytes {
        1 => (&[1, 2, 255, 256][..], 256),
        2 => (&[257, 258, 5000, 65_535, 65_536][..], 65_536),
        _ => (&[65_537, 65_538, 70_001][..], 70_001),
    };
    let element = Element::Int(width.into());
    let inputs =
        (select(counts), 0..3000usize, any::<u64>()).prop_map(move |(count, more, seed)| Buffer {
            element,
            pattern: Pattern::Few(count),
            len_bytes: least_len * element.len_bytes() + more,
            seed,
        });
    Encoding::new(
        format!("ZPL1, {width} bytes, indices of {index_bytes}"),
        Vec::new(),
        inputs,
        move |buffer| {
            let case = palette_case(buffer, width, &[ZstdCoding::Search(1)]);
            assert_eq!(case.encoded[INDEX_BYTES_AT], index_bytes, "{buffer:?}");
            case
        },
    )
}

fn auto_transforms() -> Vec<zara::ZaraTransform> {
    let formats = ["bfloat16", "float16", "float32"]
        .map(|name| FloatFormat::by_name(name.as_bytes()).expect("a float format"));
    let mut transforms = vec![zara::ZaraTransform::Raw(1), zara::ZaraTransform::Raw(4)];
    transforms.extend([1, 2, 3, 4, 8, 16].map(zara::ZaraTransform::BytePlane));
    transforms.extend(formats.map(zara::ZaraTransform::BitField));
    transforms.extend(formats.map(zara::ZaraTransform::BitPack));
    transforms
}

/// Returns the lists of codecs to force: storing, each method alone, and all methods.
fn codecs() -> [Vec<StreamCodec>; 7] {
    let zstd = StreamCodec::Zstd(ZstdCoding::Search(3));
    let brotli = StreamCodec::Brotli(9);
    let blocks = StreamCodec::BrotliBlocks {
        quality: 5,
        block_bytes: 4097,
    };
    [
        vec![],
        vec![zstd],
        vec![StreamCodec::Zstd(ZstdCoding::Huffman)],
        vec![StreamCodec::Rans],
        vec![brotli],
        vec![blocks],
        vec![zstd, StreamCodec::Rans, StreamCodec::Brotli(11), blocks],
    ]
}

fn auto(transform: zara::ZaraTransform, codecs: Vec<StreamCodec>) -> Encoding {
    let (name, item_bytes) = match transform {
        zara::ZaraTransform::Raw(width) => (format!("raw {width}"), 1),
        zara::ZaraTransform::BytePlane(width) => (format!("byte planes {width}"), width.into()),
        zara::ZaraTransform::BitField(format) => {
            (format!("bit fields {}", format.name), format.item_bytes)
        }
        zara::ZaraTransform::BitPack(format) => {
            (format!("packed bits {}", format.name), format.item_bytes)
        }
    };
    Encoding::new(
        format!("ZARA, {name}, {codecs:?}"),
        random_buffers::anchors(),
        random_buffers::short_buffers(item_bytes, 300_000),
        move |buffer| {
            let bytes = buffer.bytes();
            let frame = zara::encode(engine(), &bytes, transform, &codecs);
            let stored = zara::encode(engine(), &bytes, transform, &[]);
            Case {
                forced: codecs.is_empty() || frame != stored,
                ..Case::frame(bytes, frame)
            }
        },
    )
}
