//! Encoder of a whole frame, following a given [`Recipe`].

use alloc::vec;
use alloc::vec::Vec;

use super::{MAGIC, PlaneCoder, Recipe, Transform, VERSION};
use crate::engine::PackEngine;
use crate::entropy::blocks;
use crate::frame::plane::{self, Method};
use crate::sort;

/// Returns the bytes of a frame up to its first plane record.
#[must_use]
pub fn head(transform: Transform, tail: &[u8]) -> Vec<u8> {
    let (id, width, planes, format) = match transform {
        Transform::Opaque => (0, 1, 1, ""),
        Transform::BytePlane(width) => (1, width, width, ""),
        Transform::BitField(format) => (2, 0, 3, format.name),
    };
    let mut out = Vec::with_capacity(32);
    out.extend_from_slice(MAGIC);
    // The version, no flags, the transform, and an empty NumPy dtype.
    out.extend_from_slice(&[VERSION, 0, id, width, planes, 0]);
    // Each length fits its field: a format name has at most eight letters, and
    // the tail is shorter than an element.
    out.push(format.len().to_le_bytes()[0]);
    out.extend_from_slice(format.as_bytes());
    out.push(0);
    out.extend_from_slice(&(tail.len() as u64).to_le_bytes()[..4]);
    out.extend_from_slice(tail);
    out
}

/// The payload of a plane.
enum Payload {
    /// The plane itself, extracted from the tensor when the frame is assembled.
    Raw,
    /// Independent blocks, preceded by their table if there are several.
    Blocks {
        method: Method,
        table: Vec<u8>,
        blocks: Vec<Vec<u8>>,
    },
    /// A plane coded as a whole.
    Whole(Method, Vec<u8>),
}

impl Payload {
    fn from_blocks(coder: &PlaneCoder, blocks: Vec<Vec<u8>>) -> Self {
        let method = coder.block_method();
        let table = match method {
            Method::Blocks => blocks::table_of(coder.block_bytes(), &blocks),
            _ => Vec::new(),
        };
        let coded = Self::Blocks {
            method,
            table,
            blocks,
        };
        if coded.len_bytes(coder) < coder.len_bytes() {
            coded
        } else {
            Self::Raw
        }
    }

    fn len_bytes(&self, coder: &PlaneCoder) -> usize {
        match self {
            Self::Raw => coder.len_bytes(),
            Self::Blocks { table, blocks, .. } => {
                table.len() + blocks.iter().map(Vec::len).sum::<usize>()
            }
            Self::Whole(_, payload) => payload.len(),
        }
    }

    fn method(&self) -> Method {
        match self {
            Self::Raw => Method::Store,
            Self::Blocks { method, .. } | Self::Whole(method, _) => *method,
        }
    }
}

/// A frame whose planes are coded but not yet assembled.
pub struct EncodedPlanes<'a> {
    head: Vec<u8>,
    planes: Vec<(PlaneCoder<'a>, Payload)>,
}

impl<'a> EncodedPlanes<'a> {
    /// Encodes the planes of `tensor` following `recipe`.
    #[must_use]
    pub fn new<E: PackEngine>(engine: &E, tensor: &'a [u8], recipe: &Recipe) -> Self {
        let (coders, tail) = PlaneCoder::all(tensor, recipe);
        let payloads = payloads(engine, &coders);
        Self {
            head: head(recipe.transform, tail),
            planes: coders.into_iter().zip(payloads).collect(),
        }
    }

    /// Returns the length of the frame in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        let planes = self.planes.iter();
        let records = planes.map(|(coder, payload)| plane::HEAD_BYTES + payload.len_bytes(coder));
        self.head.len() + records.sum::<usize>()
    }

    /// Assembles the frame in a new buffer.
    #[must_use]
    pub(crate) fn to_frame<E: PackEngine>(&self, engine: &E) -> Vec<u8> {
        let mut frame = vec![0; self.len_bytes()];
        self.write(engine, &mut frame);
        frame
    }

    /// Assembles the frame in `out`.
    ///
    /// # Panics
    /// If the length of `out` is not [`Self::len_bytes`].
    pub fn write<E: PackEngine>(&self, engine: &E, out: &mut [u8]) {
        assert_eq!(out.len(), self.len_bytes());
        let mut rest = out;
        let mut next = |len: usize| rest.split_off_mut(..len).unwrap_or_default();
        next(self.head.len()).copy_from_slice(&self.head);
        let mut fills = Vec::new();
        for (coder, payload) in &self.planes {
            let (len, payload_len) = (coder.len_bytes(), payload.len_bytes(coder));
            let head = plane::head(payload.method(), len as u64, payload_len as u64);
            next(head.len()).copy_from_slice(&head);
            match payload {
                Payload::Raw => {
                    let pieces = next(len).chunks_mut(RAW_PIECE_BYTES);
                    let starts = (0..).step_by(RAW_PIECE_BYTES);
                    let raw = |(to, start)| (to, Fill::Extract(coder, start));
                    fills.extend(pieces.zip(starts).map(raw));
                }
                Payload::Blocks { table, blocks, .. } => {
                    next(table.len()).copy_from_slice(table);
                    fills.extend(
                        blocks
                            .iter()
                            .map(|block| (next(block.len()), Fill::Copy(block))),
                    );
                }
                Payload::Whole(_, payload) => {
                    fills.push((next(payload.len()), Fill::Copy(payload)));
                }
            }
        }
        let fill = |(to, from): (&mut [u8], Fill)| match from {
            Fill::Copy(coded) => to.copy_from_slice(coded),
            Fill::Extract(coder, start) => coder.extract(start, to),
        };
        if self.len_bytes() > RAW_PIECE_BYTES {
            // Spreads the page faults of a large, fresh buffer over all threads.
            engine.map(fills, fill);
        } else {
            fills.into_iter().for_each(fill);
        }
    }
}

/// Encodes `tensor` into a frame, following `recipe`.
#[must_use]
pub fn encode<E: PackEngine>(engine: &E, tensor: &[u8], recipe: &Recipe) -> Vec<u8> {
    EncodedPlanes::new(engine, tensor, recipe).to_frame(engine)
}

/// The origin of a range of the assembled frame: a copy of coded bytes, or
/// uncoded bytes of a plane from an offset on.
enum Fill<'a> {
    Copy(&'a [u8]),
    Extract(&'a PlaneCoder<'a>, usize),
}

/// Number of bytes of a stored plane that one job extracts from the tensor.
const RAW_PIECE_BYTES: usize = 1 << 20;

/// Encodes all planes. Blocks are coded in the order of their source elements,
/// so that these are still in a CPU cache when the next plane is extracted from
/// them.
fn payloads<E: PackEngine>(engine: &E, coders: &[PlaneCoder]) -> Vec<Payload> {
    let is_coded = |coder: &PlaneCoder| coder.block_method() != Method::Store;
    let mut jobs = Vec::new();
    for (plane, coder) in coders.iter().enumerate() {
        let count = match coder.is_blockwise() {
            true if is_coded(coder) => coder.block_count(),
            true => 0,
            false => 1,
        };
        jobs.extend((0..count).map(|block| (plane, block)));
    }
    let jobs = sort::sorted(jobs, |&(plane, block)| {
        let source = coders[plane].source(coders[plane].block(block));
        (source.start as u64, plane as u64)
    });
    let coded = engine.map(jobs.clone(), |(plane, block)| {
        let coder = &coders[plane];
        if coder.is_blockwise() {
            (coder.block_method(), coder.encode_block(engine, block))
        } else {
            coder.encode_whole(engine)
        }
    });
    let mut by_plane: Vec<Vec<_>> = coders.iter().map(|_| Vec::new()).collect();
    for ((plane, block), coded) in jobs.into_iter().zip(coded) {
        by_plane[plane].push((block, coded));
    }
    let planes = coders.iter().zip(by_plane);
    planes
        .map(|(coder, coded)| {
            let coded = sort::sorted(coded, |(block, _)| (*block as u64, 0));
            let mut coded = coded.into_iter().map(|(_, coded)| coded);
            if !coder.is_blockwise() {
                let whole = coded.next();
                whole.map_or(Payload::Raw, |(method, payload)| {
                    Payload::Whole(method, payload)
                })
            } else if is_coded(coder) {
                Payload::from_blocks(coder, coded.map(|(_, block)| block).collect())
            } else {
                Payload::Raw
            }
        })
        .collect()
}
