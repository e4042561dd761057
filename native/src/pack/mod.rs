//! A safetensors file to a ZSTN container, in bounded memory.
//!
//! Tensors are coded in batches that fit the memory allowed, a batch on all
//! threads while the one before is written; a tensor too large for that goes
//! plane by plane (`large`). The bytes are the same either way, and the
//! same for any number of threads.

use zstn_core::Rule;
use zstn_core::catalog::{self, Recognised};
use zstn_core::container::safetensors::{self, Header};
use zstn_core::container::zstn;
use zstn_core::frame::select;

use crate::report::{PackedFile, Storage};
use crate::source::{Map, Source};
use crate::{Engine, Error, Output, Result};

pub(crate) mod batch;
mod job;
mod large;
mod options;

pub(crate) use job::Job;
pub use options::PackOptions;

/// Packs a mapped file.
///
/// # Errors
/// An output that is the input; a file that is not safetensors, or was cut
/// off; [`Error::Changed`] if somebody wrote to the input meanwhile; and I/O
/// errors. Nothing of the output is left then.
pub(crate) fn pack_file(
    engine: &Engine,
    input: &Map,
    mut output: Output,
    options: &PackOptions,
) -> Result<PackedFile> {
    options.check()?;
    output.check_inputs(&[input])?;
    let refuse = Error::place(input.name());
    if input.starts_with(&zstn::MAGIC) {
        return Err(Error::Usage(format!("{} is packed already", input.name())));
    }
    let head = &input[..input.len().min(16)];
    let kind = catalog::recognise(head, input.len_bytes()).map_err(&refuse)?;
    if kind == Recognised::Delta {
        return Err(Error::Usage(format!(
            "{} is packed already, as a difference from another checkpoint",
            input.name()
        )));
    }
    if kind != Recognised::Safetensors {
        return Err(Error::Usage(format!(
            "{} is not a safetensors file; `convert` packs files of other kinds",
            input.name()
        )));
    }
    let header_len = safetensors::header_len_bytes(input, input.len_bytes()).map_err(&refuse)?;
    let data_start = zstn_core::bytes::index(safetensors::PREFIX_BYTES + header_len);
    let (header, data) = (&input[8..data_start], &input[data_start..]);

    options.progress.begin(data.len() as u64);
    let report = match Header::parse(header, data.len() as u64) {
        Ok(parsed) if zstn::names_fit(&parsed) => {
            let job = Job {
                engine,
                input,
                data_start,
                options,
            };
            job.indexed(header, parsed, &mut output)
        }
        Err(error)
            if error.rule() == Some(Rule::SafetensorsTruncated) && !options.allow_truncated =>
        {
            return Err(refuse(error));
        }
        _ => single_frame(engine, header, data, &mut output, options),
    };
    // Whatever else went wrong may come of the change.
    input.check_unchanged()?;
    let mut report = report?;
    report.input = input.name().into();
    report.output = output.path();
    output.finish()?;
    Ok(report)
}

/// The layout for files that are not safetensors by the rules.
fn single_frame(
    engine: &Engine,
    header: &[u8],
    data: &[u8],
    output: &mut Output,
    options: &PackOptions,
) -> Result<PackedFile> {
    let frame = select::encode(engine, data, None, options.effort);
    let prefix = zstn::single_frame(header, data.len() as u64, frame.len() as u64);
    output.write(&prefix)?;
    output.write(&frame)?;
    options.progress.advance(data.len() as u64);
    Ok(PackedFile {
        input: String::new(),
        output: None,
        original_bytes: (8 + header.len() + data.len()) as u64,
        packed_bytes: (prefix.len() + frame.len()) as u64,
        tensors: 0,
        storage: Storage::SingleFrame,
    })
}
