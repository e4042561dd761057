//! Packs a tensor that does not fit into memory together with its delta and coded
//! forms. These are written to temporary files, and the smallest one is copied to the
//! output.

use std::ops::Range;

use zstn_core::container::model_delta::{
    Grown, RecordInfo, RecordKind, announce, divided_shape, record_head, shortened,
};
use zstn_core::container::safetensors::HeaderTensor;
use zstn_core::container::zstn::virtual_header::VirtualHeader;
use zstn_core::frame::{Edition, delta, difference};
use zstn_core::transform;

use super::records::DeltaCoder;
use crate::pack::pipeline::Record;
use crate::pack::{Data, FrameCoder, content};
use crate::source::{Local, Source};
use crate::{Error, Output, Progress as _, Result};

/// The number of bytes at the start of a frame that contain its family and its flags.
const HEAD_BYTES: u64 = 16;

/// The payload of a delta record: bytes in memory, then frames in files.
struct Payload {
    kind: RecordKind,
    edition: Edition,
    head: Vec<u8>,
    frames: Vec<Local>,
}

impl Payload {
    /// Returns an empty payload of this kind.
    fn of(kind: RecordKind) -> Self {
        Self {
            kind,
            edition: kind.edition(),
            head: Vec::new(),
            frames: Vec::new(),
        }
    }

    fn len_bytes(&self) -> u64 {
        let frames = self.frames.iter().map(Local::len_bytes);
        self.head.len() as u64 + frames.sum::<u64>()
    }

    /// Returns `other` if it is smaller although its entry in `SRCS` takes `source_bytes`.
    fn or_smaller(self, other: Self, source_bytes: u64) -> Self {
        match other.len_bytes() + source_bytes < self.len_bytes() {
            true => other,
            false => self,
        }
    }
}

impl DeltaCoder<'_> {
    /// Writes the record of a tensor. The bytes equal the output of
    /// [`code_content`](zstn_core::container::model_delta::code_content).
    pub(super) fn write_large_record(
        &self,
        tensor: &HeaderTensor,
        output: &mut Output,
    ) -> Result<Record<RecordInfo>> {
        let pair = self.pairs.get(tensor);
        let digest = self.target.digest(&tensor.span)?;
        let payload = match pair {
            None => self.full(tensor)?,
            Some(pair) => {
                let range = pair.range();
                let len = range.end - range.start;
                let is_short = len < tensor.span.end - tensor.span.start;
                if !is_short && self.is_same(tensor, &range)? {
                    Payload::of(RecordKind::Copy)
                } else {
                    let full = self.full(tensor)?;
                    let other = match is_short {
                        true => self.grown(tensor, &range)?,
                        false => self.smallest_from_base(tensor, &range)?,
                    };
                    full.or_smaller(other, pair.source_bytes())
                }
            }
        };
        let source = match pair {
            Some(pair) => pair.source(payload.kind, || self.digest_of_base(&pair.tensor))?,
            None => None,
        };
        let payload_len = payload.len_bytes();
        let Payload {
            kind,
            edition,
            mut head,
            frames,
        } = payload;
        let mut skipped = 0;
        if let (true, Some(frame)) = (head.is_empty(), frames.first()) {
            head = frame.head(HEAD_BYTES)?.into_owned();
            skipped = head.len() as u64;
        }
        announce(kind, &mut head);
        let record_head = record_head(tensor, kind, payload_len)
            .map_err(Error::place(self.target.input.name()))?;
        output.write_final(&record_head)?;
        output.write_final(&head)?;
        for frame in frames {
            let rest = std::mem::take(&mut skipped)..frame.len_bytes();
            self.job
                .feed(&frame, rest, &mut |piece| output.write_final(piece))?;
        }
        self.job.advance(tensor.span.end - tensor.span.start);
        Ok(Record {
            len_bytes: record_head.len() as u64 + payload_len,
            edition: match source {
                Some(_) => Edition::Paired,
                None => edition,
            },
            entry: RecordInfo {
                kind,
                payload_len_bytes: payload_len,
                digest: shortened(&digest),
                source,
            },
        })
    }

    /// Returns the payload of a tensor that is stored in full.
    fn full(&self, tensor: &HeaderTensor) -> Result<Payload> {
        let is_extended = self.options.encode.is_extended();
        let full = self.frame(self.target, tensor, self.virtual_header, is_extended)?;
        Ok(Payload {
            edition: Edition::of_frame(&full.head(HEAD_BYTES)?),
            frames: vec![full],
            ..Payload::of(RecordKind::Full)
        })
    }

    /// Returns the smaller one of the differences of a tensor from bytes of the base of
    /// the same length.
    fn smallest_from_base(&self, tensor: &HeaderTensor, reference: &Range<u64>) -> Result<Payload> {
        let (head, frame) = self.delta(tensor, reference)?;
        let delta = Payload {
            head,
            frames: vec![frame],
            ..Payload::of(RecordKind::Delta)
        };
        if !self.options.encode.is_extended() {
            return Ok(delta);
        }
        // Unlike the other payloads, this one is made in memory.
        let bytes = self.target.read(&tensor.span)?;
        let current = content(self.virtual_header, tensor, &bytes);
        let base = self.base.read(reference.clone())?;
        let encoded = difference::encode(&self.job.engine, current, &base, self.options.encode);
        Ok(match encoded {
            Some(head) => {
                let difference = Payload {
                    head,
                    ..Payload::of(RecordKind::Difference)
                };
                delta.or_smaller(difference, 0)
            }
            None => delta,
        })
    }

    /// Returns a payload whose beginning is decoded from bytes of the base that are
    /// shorter than the tensor.
    fn grown(&self, tensor: &HeaderTensor, reference: &Range<u64>) -> Result<Payload> {
        let middle = tensor.span.start + (reference.end - reference.start);
        let [front, back] = [tensor.span.start..middle, middle..tensor.span.end];
        let len = |span: &Range<u64>| span.end - span.start;
        let [front_shape, back_shape] = divided_shape(&tensor.shape, len(&front), len(&back));
        let part = |span, shape| HeaderTensor {
            span,
            shape,
            ..tensor.clone()
        };
        let front = part(front, front_shape);
        let front = match self.is_same(&front, reference)? {
            true => Payload::of(RecordKind::Copy),
            false => self.smallest_from_base(&front, reference)?,
        };
        let back = self.full(&part(back, back_shape))?;
        let mut head = Grown::head_to_bytes(front.kind, front.len_bytes());
        head.extend_from_slice(&front.head);
        Ok(Payload {
            head,
            frames: front.frames.into_iter().chain(back.frames).collect(),
            ..Payload::of(RecordKind::Grown)
        })
    }

    /// Encodes a tensor of `data`, a file with this virtual header, as a frame in a
    /// temporary file.
    fn frame(
        &self,
        data: Data<'_>,
        tensor: &HeaderTensor,
        virtual_header: Option<&VirtualHeader>,
        is_extended: bool,
    ) -> Result<Local> {
        let options = self.options.extended(is_extended);
        let coder = FrameCoder::new(self.quiet, data, options).virtual_header(virtual_header);
        let mut output = Output::temporary()?;
        let len = coder.write_frame(tensor, 0, &mut output)?.len_bytes;
        output.cut(len)?;
        output.written()
    }

    /// Returns the head and the frame of the XOR delta.
    fn delta(&self, tensor: &HeaderTensor, reference: &Range<u64>) -> Result<(Vec<u8>, Local)> {
        let mut difference = Output::temporary()?;
        let mut at = reference.start;
        self.target.try_feed(&tensor.span, &mut |current| {
            let end = at + current.len() as u64;
            let mut piece = self.base.read(at..end)?.into_owned();
            at = end;
            transform::xor(&mut piece, current);
            difference.write(&piece)
        })?;
        let head = delta::head(|sink| self.base.feed(reference.clone(), sink))?;
        let difference = difference.written()?;
        let alone = HeaderTensor {
            span: 0..tensor.span.end - tensor.span.start,
            ..tensor.clone()
        };
        let header = self.virtual_header.map(|header| header.of_entry(tensor));
        let data = Data::new(self.quiet, &difference, 0);
        let frame = self.frame(data, &alone, header.as_ref(), false)?;
        Ok((head, frame))
    }

    /// Returns whether a tensor equals the bytes of the base at `reference`, which has the
    /// same length.
    fn is_same(&self, tensor: &HeaderTensor, reference: &Range<u64>) -> Result<bool> {
        let (mut is_same, mut at) = (true, reference.start);
        self.target.try_feed(&tensor.span, &mut |current| {
            let end = at + current.len() as u64;
            is_same = is_same && *self.base.read(at..end)? == *current;
            at = end;
            Ok(())
        })?;
        Ok(is_same)
    }
}
