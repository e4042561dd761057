//! Packs a tensor that does not fit into memory together with its delta and coded
//! forms. These are written to temporary files, and the smallest one is copied to the
//! output.

use std::ops::Range;

use zstn_core::container::model_delta::{RecordInfo, RecordKind, announce, record_head, shortened};
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

/// The payload of a delta record in two parts: bytes in memory, then a frame in a file.
struct Payload {
    kind: RecordKind,
    edition: Edition,
    head: Vec<u8>,
    frame: Option<Local>,
}

impl Payload {
    /// Returns an empty payload of this kind.
    fn of(kind: RecordKind) -> Self {
        Self {
            kind,
            edition: kind.edition(),
            head: Vec::new(),
            frame: None,
        }
    }

    fn len_bytes(&self) -> u64 {
        self.head.len() as u64 + self.frame.as_ref().map_or(0, Local::len_bytes)
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
        let reference = self.base_header.reference(tensor);
        let digest = self.target.digest(&tensor.span)?;
        let is_same = match &reference {
            Some(reference) => self.is_same(tensor, reference)?,
            None => false,
        };
        let payload = match is_same {
            true => Payload::of(RecordKind::Copy),
            false => self.payload(tensor, reference.as_ref())?,
        };
        let payload_len = payload.len_bytes();
        let Payload {
            kind,
            edition,
            head,
            frame,
        } = payload;
        let (mut head, mut skipped) = (head, 0);
        if let (true, Some(frame)) = (head.is_empty(), &frame) {
            head = frame.head(HEAD_BYTES)?.into_owned();
            skipped = head.len() as u64;
        }
        announce(kind, &mut head);
        let record_head = record_head(tensor, kind, payload_len)
            .map_err(Error::place(self.target.input.name()))?;
        output.write_final(&record_head)?;
        output.write_final(&head)?;
        if let Some(frame) = frame {
            let rest = skipped..frame.len_bytes();
            self.job
                .feed(&frame, rest, &mut |piece| output.write_final(piece))?;
        }
        self.job.advance(tensor.span.end - tensor.span.start);
        Ok(Record {
            len_bytes: record_head.len() as u64 + payload_len,
            edition,
            entry: RecordInfo {
                kind,
                payload_len_bytes: payload_len,
                digest: shortened(&digest),
            },
        })
    }

    /// Returns the smallest payload for a tensor that is not a copy.
    fn payload(&self, tensor: &HeaderTensor, reference: Option<&Range<u64>>) -> Result<Payload> {
        let is_extended = self.options.encode.is_extended();
        let full = self.frame(self.target, tensor, self.virtual_header, is_extended)?;
        let mut smallest = Payload {
            edition: Edition::of_frame(&full.head(HEAD_BYTES)?),
            frame: Some(full),
            ..Payload::of(RecordKind::Full)
        };
        let Some(reference) = reference else {
            return Ok(smallest);
        };
        let (head, frame) = self.delta(tensor, reference)?;
        if head.len() as u64 + frame.len_bytes() < smallest.len_bytes() {
            smallest = Payload {
                head,
                frame: Some(frame),
                ..Payload::of(RecordKind::Delta)
            };
        }
        if !is_extended {
            return Ok(smallest);
        }
        // Unlike the other payloads, this one is made in memory.
        let bytes = self.target.read(&tensor.span)?;
        let current = content(self.virtual_header, tensor, &bytes);
        let base = self.base.read(reference.clone())?;
        match difference::encode(&self.job.engine, current, &base, self.options.encode) {
            Some(head) if (head.len() as u64) < smallest.len_bytes() => Ok(Payload {
                head,
                ..Payload::of(RecordKind::Difference)
            }),
            _ => Ok(smallest),
        }
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
