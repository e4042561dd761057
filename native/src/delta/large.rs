//! Packs a tensor that does not fit into memory together with its delta and coded
//! forms. These are written to temporary files, and the smallest one is copied to the
//! output.

use std::ops::Range;

use zstn_core::container::model_delta::{
    BaseHeader, DeltaPacker, RecordInfo, RecordKind, announce, record_head, shortened,
};
use zstn_core::container::safetensors::HeaderTensor;
use zstn_core::frame::{Edition, delta, difference};
use zstn_core::{TensorRef, digest, transform};

use crate::pack::{Data, FilePacker};
use crate::source::{Local, Source};
use crate::{Engine, Error, Output, PackOptions, Result};

/// The first bytes of a frame, which contain its family and its flags.
const HEAD_BYTES: u64 = 16;

/// A target file and its base, with the options for packing one against the other.
pub struct Pair<'a> {
    pub engine: &'a Engine,
    pub target: &'a Local,
    pub base: &'a Local,
    pub packing: &'a DeltaPacker,
    pub base_header: &'a BaseHeader,
    pub options: &'a PackOptions<'a>,
}

/// A record that has been written to the output.
pub struct Written {
    pub len_bytes: u64,
    pub info: RecordInfo,
    /// The edition that a file with this record must have.
    pub edition: Edition,
}

/// A payload in two parts: bytes in memory, then a frame in a file.
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

impl Pair<'_> {
    /// Writes the record of tensor `number`. The bytes equal the output of
    /// [`code`](zstn_core::container::model_delta::code).
    pub fn write(&self, number: usize, output: &mut Output) -> Result<Written> {
        let refuse = Error::place(self.target.name());
        let tensor = &self.packing.tensors()[number];
        let place = self.packing.range(tensor);
        let reference = self.base_header.reference(tensor);
        let digest = digest::of_fed(|sink| self.target.feed(place.clone(), sink))?;
        let is_same = match &reference {
            Some(reference) => self.is_same(&place, reference)?,
            None => false,
        };
        let payload = match is_same {
            true => Payload::of(RecordKind::Copy),
            false => self.payload(&place, reference.as_ref(), tensor)?,
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
        let record_head = record_head(tensor, kind, payload_len).map_err(&refuse)?;
        output.write_final(&record_head)?;
        output.write_final(&head)?;
        if let Some(frame) = frame {
            let rest = skipped..frame.len_bytes();
            frame.try_feed(rest, &mut |piece| output.write_final(piece))?;
        }
        self.options.progress.advance(place.end - place.start);
        let info = RecordInfo {
            kind,
            payload_len_bytes: payload_len,
            digest: shortened(&digest),
        };
        Ok(Written {
            len_bytes: record_head.len() as u64 + payload_len,
            info,
            edition,
        })
    }

    /// Returns the smallest payload for a tensor that is not a copy.
    fn payload(
        &self,
        place: &Range<u64>,
        reference: Option<&Range<u64>>,
        tensor: &HeaderTensor,
    ) -> Result<Payload> {
        let full = self.frame(self.target, place.start, tensor, self.options.extended)?;
        let mut smallest = Payload {
            edition: Edition::of_frame(&full.head(HEAD_BYTES)?),
            frame: Some(full),
            ..Payload::of(RecordKind::Full)
        };
        let Some(reference) = reference else {
            return Ok(smallest);
        };
        let (head, frame) = self.delta(tensor, place, reference)?;
        if head.len() as u64 + frame.len_bytes() < smallest.len_bytes() {
            smallest = Payload {
                head,
                frame: Some(frame),
                ..Payload::of(RecordKind::Delta)
            };
        }
        if !self.options.extended {
            return Ok(smallest);
        }
        // Unlike the other payloads, this one is made in memory.
        let bytes = self.target.read(place.clone())?;
        let current = TensorRef::new(&bytes, tensor.dtype, &tensor.shape);
        let base = self.base.read(reference.clone())?;
        let options = self.options.encode();
        match difference::encode(self.engine, current, &base, options) {
            Some(head) if (head.len() as u64) < smallest.len_bytes() => Ok(Payload {
                head,
                ..Payload::of(RecordKind::Difference)
            }),
            _ => Ok(smallest),
        }
    }

    /// Returns the frame of the bytes of `input` from `start` onwards that are as long
    /// as `tensor`.
    fn frame(
        &self,
        input: &Local,
        start: u64,
        tensor: &HeaderTensor,
        extended: bool,
    ) -> Result<Local> {
        let options = PackOptions {
            progress: &(),
            extended,
            ..self.options.clone()
        };
        let packer = FilePacker::new(self.engine, Data::new(input, start), &options);
        let alone = HeaderTensor {
            span: 0..tensor.span.end - tensor.span.start,
            ..tensor.clone()
        };
        let mut output = Output::temporary()?;
        let len = packer.large(&alone, 0, &mut output)?.len_bytes;
        output.cut(len)?;
        output.written()
    }

    /// Returns the head and the frame of the XOR delta.
    fn delta(
        &self,
        tensor: &HeaderTensor,
        place: &Range<u64>,
        reference: &Range<u64>,
    ) -> Result<(Vec<u8>, Local)> {
        let mut difference = Output::temporary()?;
        let mut at = reference.start;
        self.target.try_feed(place.clone(), &mut |current| {
            let end = at + current.len() as u64;
            let mut piece = self.base.read(at..end)?.into_owned();
            at = end;
            transform::xor(&mut piece, current);
            difference.write(&piece)
        })?;
        let head = delta::head(|sink| self.base.feed(reference.clone(), sink))?;
        let frame = self.frame(&difference.written()?, 0, tensor, false)?;
        Ok((head, frame))
    }

    /// Returns whether the bytes of the target at `place` equal the bytes of the base
    /// at `reference`, which has the same length.
    fn is_same(&self, place: &Range<u64>, reference: &Range<u64>) -> Result<bool> {
        let (mut is_same, mut at) = (true, reference.start);
        self.target.try_feed(place.clone(), &mut |current| {
            let end = at + current.len() as u64;
            is_same = is_same && *self.base.read(at..end)? == *current;
            at = end;
            Ok(())
        })?;
        Ok(is_same)
    }
}
