//! A tensor that does not fit into memory with its difference and its coded
//! forms: those lie in temporary files, and the smaller one is copied.

use std::ops::Range;

use zstn_core::TensorRef;
use zstn_core::bytes::index;
use zstn_core::container::model_delta::{DeltaPacker, Kind, RecordInfo, announce, short_digest};
use zstn_core::container::safetensors::Tensor;
use zstn_core::frame::{Edition, delta, difference};
use zstn_core::transform::xor;

use crate::pack::{Data, FilePacker};
use crate::source::{Map, Source};
use crate::{Engine, Error, Output, PackOptions, Result};

/// First bytes of a frame, which hold its flags.
const FLAGS_BYTES: usize = 16;

/// Two files, and how one is packed against the other.
pub struct Pair<'a> {
    pub engine: &'a Engine,
    pub target: &'a Map,
    pub base: &'a Map,
    pub packing: &'a DeltaPacker<'a>,
    pub options: &'a PackOptions<'a>,
}

/// A record that has been written.
pub struct Written {
    pub len_bytes: u64,
    pub info: RecordInfo,
    /// The edition that a file with it has to be.
    pub edition: Edition,
}

/// A payload in two parts.
struct Payload {
    kind: Kind,
    edition: Edition,
    head: Vec<u8>,
    frame: Option<Map>,
}

impl Payload {
    /// An empty one.
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            edition: kind.edition(),
            head: Vec::new(),
            frame: None,
        }
    }

    fn len(&self) -> usize {
        self.head.len() + self.frame.as_ref().map_or(0, |map| map.len())
    }
}

impl Pair<'_> {
    /// Writes the record of tensor `number`, the same bytes as those of
    /// [`DeltaPacker::code`].
    pub fn write(&self, number: usize, output: &mut Output) -> Result<Written> {
        let refuse = Error::place(self.target.name());
        let tensor = &self.packing.tensors()[number];
        let place = at(&self.packing.range(number)?);
        let reference = self.packing.reference(number).map(|place| at(&place));
        let digest = short_digest(self.target.pieces(place.clone()));
        let same = |reference: &Range<usize>| {
            let pieces = self.target.pieces(place.clone());
            pieces.eq(self.base.pieces(reference.clone()))
        };
        let payload = if reference.as_ref().is_some_and(same) {
            Payload::of(Kind::Copy)
        } else {
            self.payload(&place, reference.as_ref(), tensor)?
        };
        let Payload {
            kind,
            edition,
            head,
            frame,
        } = payload;
        let payload_len = (head.len() + frame.as_ref().map_or(0, |map| map.len())) as u64;
        let (mut head, mut skipped) = (head, 0);
        if let (true, Some(frame)) = (head.is_empty(), &frame) {
            skipped = frame.len().min(FLAGS_BYTES);
            head = frame[..skipped].to_vec();
        }
        announce(kind, &mut head);
        let record_head = self
            .packing
            .head(number, kind, payload_len)
            .map_err(&refuse)?;
        output.write_final(&record_head)?;
        output.write_final(&head)?;
        if let Some(frame) = frame {
            for piece in frame.pieces(skipped..frame.len()) {
                output.write_final(piece)?;
            }
        }
        self.options.progress.advance(place.len() as u64);
        let info = RecordInfo {
            kind,
            payload_len_bytes: payload_len,
            digest,
        };
        Ok(Written {
            len_bytes: record_head.len() as u64 + payload_len,
            info,
            edition,
        })
    }

    /// Returns the smallest payload of a tensor that is not a copy.
    fn payload(
        &self,
        place: &Range<usize>,
        reference: Option<&Range<usize>>,
        tensor: &Tensor,
    ) -> Result<Payload> {
        let full = self.frame(self.target, place.start, tensor, self.options.extended)?;
        let mut smallest = Payload {
            edition: Edition::of_frame(&full),
            frame: Some(full),
            ..Payload::of(Kind::Full)
        };
        let Some(reference) = reference else {
            return Ok(smallest);
        };
        let (head, frame) = self.delta(tensor, place, reference)?;
        if head.len() + frame.len() < smallest.len() {
            smallest = Payload {
                head,
                frame: Some(frame),
                ..Payload::of(Kind::Delta)
            };
        }
        if !self.options.extended {
            return Ok(smallest);
        }
        // Unlike all others, this one is made in memory.
        let bytes = &self.target[place.clone()];
        let current = TensorRef::new(bytes, tensor.dtype, &tensor.shape);
        let base = &self.base[reference.clone()];
        let options = self.options.encode();
        match difference::encode(self.engine, current, base, options) {
            Some(head) if head.len() < smallest.len() => Ok(Payload {
                head,
                ..Payload::of(Kind::Difference)
            }),
            _ => Ok(smallest),
        }
    }

    /// Returns the frame of as many bytes as `tensor` has, from `start` of `input`.
    fn frame(&self, input: &Map, start: usize, tensor: &Tensor, extended: bool) -> Result<Map> {
        let options = PackOptions {
            progress: &(),
            extended,
            ..self.options.clone()
        };
        let packer = FilePacker::new(self.engine, Data::new(input, start), &options);
        let alone = Tensor {
            span: 0..tensor.span.end - tensor.span.start,
            ..tensor.clone()
        };
        let mut output = Output::temporary()?;
        let len = packer.large(&alone, 0, &mut output)?.len_bytes;
        output.cut(len)?;
        output.map()
    }

    /// Head and frame of the difference.
    fn delta(
        &self,
        tensor: &Tensor,
        place: &Range<usize>,
        reference: &Range<usize>,
    ) -> Result<(Vec<u8>, Map)> {
        let mut difference = Output::temporary()?;
        let pieces = self.target.pieces(place.clone());
        for (current, old) in pieces.zip(self.base.pieces(reference.clone())) {
            let mut piece = current.to_vec();
            xor::apply(&mut piece, old);
            difference.write(&piece)?;
        }
        let head = delta::head(self.base.pieces(reference.clone()));
        let frame = self.frame(&difference.map()?, 0, tensor, false)?;
        Ok((head, frame))
    }
}

fn at(place: &Range<u64>) -> Range<usize> {
    index(place.start)..index(place.end)
}
