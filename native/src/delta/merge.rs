//! Finds how to compute the tensors of a base: from several checkpoints for a merged model,
//! or from one checkpoint in another dtype.

use std::sync::Arc;

use zstn_core::container::model_delta::{
    BaseHeader, Counterpart, DeltaPacker, Mixes, needs_conversion,
};
use zstn_core::container::safetensors::PREFIX_BYTES;
use zstn_core::engine::Engine as _;
use zstn_core::float::FloatType;
use zstn_core::transform::mix::{self, Mix, SAMPLE_ELEMENTS};

use super::{base_header, safetensors_head};
use crate::source::{Local, Mixed, Source};
use crate::{Error, Job, Result};

/// The number of elements that are sampled in one piece.
const PIECE_ELEMENTS: u64 = 1024;

/// Returns whether `base` has most of the tensors of `target`, but in another dtype.
///
/// # Errors
/// A base that is not a safetensors file; I/O errors.
pub(super) fn is_of_another_dtype(target: &Local, base: &Local) -> Result<bool> {
    Ok(needs_conversion(
        packer(target)?.tensors(),
        &base_header(base)?,
    ))
}

fn packer(target: &Local) -> Result<DeltaPacker> {
    let head = safetensors_head(target)?;
    let json = head.get(zstn_core::bytes::index(PREFIX_BYTES)..);
    let packer = DeltaPacker::new(json.unwrap_or_default().to_vec(), target.len_bytes());
    packer.map_err(Error::place(target.name()))
}

/// Computes a base from `sources` that is as close to `target` as possible. Tensors of a
/// single source are converted to the dtypes of the target.
///
/// # Errors
/// A source that is not a safetensors file; I/O errors.
pub(super) fn fitted(job: &Job, target: &Local, sources: &[Arc<Local>]) -> Result<(Local, Mixes)> {
    let refuse = Error::place(target.name());
    let packer = packer(target)?;
    let headers = sources.iter().map(|source| base_header(source));
    let headers: Vec<BaseHeader> = headers.collect::<Result<_>>()?;
    let counterparts = headers.iter().map(|header| match sources.len() {
        1 => Counterpart::converted(packer.tensors(), header),
        _ => Counterpart::of_all(packer.tensors(), header),
    });
    let fitting = Fitting {
        target,
        packer: &packer,
        sources,
        counterparts: counterparts.collect(),
    };
    let numbers = (0..packer.tensors().len()).collect();
    let mixes = job.engine.map(numbers, |number| fitting.mix(number));
    let mixes = Mixes::new(sources.len(), mixes.into_iter().collect::<Result<_>>()?);
    let mixes = mixes.map_err(&refuse)?;
    let base = mixes.base(packer.tensors(), &headers).map_err(&refuse)?;
    let sources = sources
        .iter()
        .map(|source| Arc::clone(source) as Arc<dyn Source>);
    let file = Local::mixed(Mixed::new(base, sources.collect()));
    Ok((file, mixes))
}

struct Fitting<'a> {
    target: &'a Local,
    packer: &'a DeltaPacker,
    sources: &'a [Arc<Local>],
    /// For each source, its tensor for each tensor of the target.
    counterparts: Vec<Vec<Option<Counterpart>>>,
}

impl Fitting<'_> {
    /// Returns the mix for tensor `number` of the target, with its counterpart in each
    /// source that is used. `None` if no source has one.
    fn mix(&self, number: usize) -> Result<Option<(Mix, Vec<&Counterpart>)>> {
        let tensor = &self.packer.tensors()[number];
        let found = self.counterparts.iter().enumerate();
        let found = found.filter_map(|(source, all)| Some((source, all[number].as_ref()?)));
        let found: Vec<(usize, &Counterpart)> = found.collect();
        let count = self.sources.len();
        match found[..] {
            [] => return Ok(None),
            [(only, of_source)] => return Ok(Some((Mix::copy_of(only, count), vec![of_source]))),
            _ => {}
        }
        let len_bytes = tensor.span.end - tensor.span.start;
        let float = FloatType::from_dtype(tensor.dtype);
        let element_bytes = float.map_or(1, FloatType::len_bytes);
        let sample = |file: &Local, start| sample(file, start, len_bytes, element_bytes as u64);
        let target = sample(self.target, self.packer.range(tensor).start)?;
        let samples = found
            .iter()
            .map(|(source, place)| sample(&self.sources[*source], place.range.start));
        let samples: Vec<Vec<u8>> = samples.collect::<Result<_>>()?;
        let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
        let numbers: Vec<usize> = found.iter().map(|(source, _)| *source).collect();
        let mix = match float {
            Some(float) => mix::fit(float, &target, &samples, &numbers, count),
            None => {
                let nearest = mix::nearest(element_bytes, &target, &samples);
                Mix::copy_of(numbers[nearest], count)
            }
        };
        let used = found
            .iter()
            .filter(|(source, _)| mix.weights[*source] != 0.0);
        let used = used.map(|(_, of_source)| *of_source).collect();
        Ok(Some((mix, used)))
    }
}

/// Reads a sample of the elements of a tensor of `len_bytes` that begins at `start`: all of
/// them, or pieces at equal distances.
fn sample(file: &Local, start: u64, len_bytes: u64, element_bytes: u64) -> Result<Vec<u8>> {
    let sample_bytes = SAMPLE_ELEMENTS * element_bytes;
    if len_bytes <= sample_bytes {
        return Ok(file.read(start..start + len_bytes)?.into_owned());
    }
    let piece_bytes = PIECE_ELEMENTS * element_bytes;
    let pieces = sample_bytes / piece_bytes;
    // The elements before the last piece, in steps of which pieces begin.
    let elements = (len_bytes - piece_bytes) / element_bytes;
    let mut out = Vec::new();
    for piece in 0..pieces {
        let first = elements / (pieces - 1) * piece;
        let at = start + first * element_bytes;
        out.extend_from_slice(&file.read(at..at + piece_bytes)?);
    }
    Ok(out)
}
