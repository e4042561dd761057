//! A tensor that does not fit into memory with its difference and its coded
//! forms: those lie in temporary files, and the smaller one is copied.

use std::ops::Range;

use zstn_core::bytes::index;
use zstn_core::container::model_delta::{DeltaPacker, Kind, RecordInfo, short_digest};
use zstn_core::container::safetensors::Tensor;
use zstn_core::frame::delta;
use zstn_core::transform::xor;

use crate::pack::{Data, FilePacker};
use crate::source::{Map, Source};
use crate::{Engine, Error, Output, PackOptions, Result};

/// Two files, and how one is packed against the other.
pub struct Pair<'a> {
    pub engine: &'a Engine,
    pub target: &'a Map,
    pub base: &'a Map,
    pub packing: &'a DeltaPacker<'a>,
    pub options: &'a PackOptions<'a>,
}

impl Pair<'_> {
    /// Writes the record of tensor `number`, the same bytes as those of
    /// [`DeltaPacker::code`]; returns its length and place.
    pub fn write(&self, number: usize, output: &mut Output) -> Result<(u64, RecordInfo)> {
        let refuse = Error::place(self.target.name());
        let tensor = &self.packing.tensors()[number];
        let place = at(&self.packing.range(number)?);
        let reference = self.packing.reference(number).map(|place| at(&place));
        let digest = short_digest(self.target.pieces(place.clone()));
        let same = |reference: &Range<usize>| {
            let pieces = self.target.pieces(place.clone());
            pieces.eq(self.base.pieces(reference.clone()))
        };
        let (kind, head, payload) = if reference.as_ref().is_some_and(same) {
            (Kind::Copy, Vec::new(), None)
        } else {
            let full = self.frame(self.target, place.start, tensor)?;
            let delta = match &reference {
                None => None,
                Some(reference) => Some(self.delta(tensor, &place, reference)?),
            };
            match delta {
                Some((head, frame)) if head.len() + frame.len() < full.len() => {
                    (Kind::Delta, head, Some(frame))
                }
                _ => (Kind::Full, Vec::new(), Some(full)),
            }
        };
        let payload_len = (head.len() + payload.as_ref().map_or(0, |map| map.len())) as u64;
        let record_head = self
            .packing
            .head(number, kind, payload_len)
            .map_err(&refuse)?;
        output.write_final(&record_head)?;
        output.write_final(&head)?;
        if let Some(frame) = payload {
            for piece in frame.pieces(0..frame.len()) {
                output.write_final(piece)?;
            }
        }
        self.options.progress.advance(place.len() as u64);
        let record_info = RecordInfo {
            kind,
            payload_len_bytes: payload_len,
            digest,
        };
        Ok((record_head.len() as u64 + payload_len, record_info))
    }

    /// Returns the frame of as many bytes as `tensor` has, from `start` of `input`.
    fn frame(&self, input: &Map, start: usize, tensor: &Tensor) -> Result<Map> {
        let options = PackOptions {
            progress: &(),
            ..self.options.clone()
        };
        let packer = FilePacker::new(self.engine, Data::new(input, start), &options);
        let alone = Tensor {
            span: 0..tensor.span.end - tensor.span.start,
            ..tensor.clone()
        };
        let mut output = Output::temporary()?;
        let len = packer.large(&alone, 0, &mut output)?.len_bytes;
        output.set_len(len)?;
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
        let frame = self.frame(&difference.map()?, 0, tensor)?;
        Ok((head, frame))
    }
}

fn at(place: &Range<u64>) -> Range<usize> {
    index(place.start)..index(place.end)
}
