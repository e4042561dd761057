//! Packs a safetensors file into a ZSTN container, in bounded memory.
//!
//! Tensors are coded in batches that fit into the allowed memory. All threads code a
//! batch while the previous one is written. A tensor that is too large for this is
//! coded plane by plane (`large`). The resulting bytes are the same in both cases, and
//! for any number of threads.

use zstn_core::Rule;
use zstn_core::catalog::{self, Kind};
use zstn_core::container::safetensors;
use zstn_core::container::zstn;
use zstn_core::limits::HEAD_LEN_BYTES;

use crate::report::PackedFile;
use crate::source::{Arriving, Local, Source};
use crate::{Engine, Error, Output, Result};

mod aliases;
pub(crate) mod batch;
mod data;
mod file_packer;
mod large;
mod options;

pub(crate) use data::Data;
pub(crate) use file_packer::FilePacker;
pub use options::PackOptions;

/// Packs a file on this machine.
///
/// # Errors
/// An output that is the input; a file that is not safetensors or is cut off;
/// [`Error::Changed`] if the input was written to meanwhile; I/O errors. After an
/// error, nothing of the output is left.
pub(crate) fn pack_file(
    engine: &Engine,
    input: &Local,
    output: Output,
    options: &PackOptions,
) -> Result<PackedFile> {
    pack(engine, input, None, output, options)
}

/// Packs a file while it arrives; the output is the same as with [`pack_file`].
///
/// # Errors
/// The errors of [`pack_file`], and of fetching the input.
pub(crate) fn pack_arriving(
    engine: &Engine,
    input: &Arriving,
    output: Output,
    options: &PackOptions,
) -> Result<PackedFile> {
    pack(engine, input.input(), Some(input), output, options)
}

/// Returns an upper bound for the length of the packed file: data that do not shrink
/// grow by their heads and the index.
pub(crate) fn max_packed_bytes(input: &Local) -> u64 {
    let len_bytes = input.len_bytes();
    len_bytes.saturating_add(len_bytes / 8)
}

/// Refuses a file that is not safetensors, according to its first bytes and, if it is
/// known, its length. A file whose header no reader accepts, because of its length or a
/// byte order mark, is accepted: it can be packed as a whole.
pub(crate) fn check_kind(head: &Local, len_bytes: Option<u64>) -> Result<()> {
    let first = head.head(HEAD_LEN_BYTES)?;
    check_head(head.name(), &first, len_bytes)
}

/// Refuses a file that cannot be packed, according to its first bytes.
pub(crate) fn check_packable(file: &dyn Source) -> Result<()> {
    let len_bytes = file.len_bytes();
    let first = file.read(0..len_bytes.min(HEAD_LEN_BYTES))?;
    check_head(file.name(), &first, Some(len_bytes))
}

/// Returns whether a packable file breaks the rules of safetensors. Such a file is
/// packed as a whole, so a base has no effect. A file that is cut off does not count.
pub(crate) fn breaks_rules(file: &Local) -> Result<bool> {
    let len_bytes = file.len_bytes();
    let start = file.head(HEAD_LEN_BYTES)?;
    if safetensors::unreadable_header_len_bytes(&start, len_bytes).is_some() {
        return Ok(true);
    }
    let Ok(header_len) = safetensors::header_len_bytes(&start, len_bytes) else {
        return Ok(false);
    };
    let data_start = safetensors::PREFIX_BYTES + header_len;
    let header = file.read(safetensors::PREFIX_BYTES..data_start)?;
    let parsed = safetensors::Header::parse(&header, len_bytes - data_start);
    Ok(parsed.is_err_and(|error| error.rule() != Some(Rule::SafetensorsTruncated)))
}

fn check_head(name: &str, first: &[u8], len_bytes: Option<u64>) -> Result<()> {
    if first.starts_with(&zstn::MAGIC) {
        return Err(Error::Usage(format!("{name} is packed already")));
    }
    let len_bytes = len_bytes.unwrap_or(u64::MAX);
    if safetensors::unreadable_header_len_bytes(first, len_bytes).is_some() {
        return Ok(());
    }
    match catalog::recognise(first, len_bytes).map_err(Error::place(name))? {
        Kind::Safetensors => Ok(()),
        Kind::Delta => Err(Error::Usage(format!(
            "{name} is packed already, as a delta from another checkpoint"
        ))),
        _ => Err(Error::Usage(format!(
            "{name} is not a safetensors file; `convert` packs files of other kinds"
        ))),
    }
}

fn pack(
    engine: &Engine,
    input: &Local,
    arriving: Option<&Arriving>,
    mut output: Output,
    options: &PackOptions,
) -> Result<PackedFile> {
    options.check()?;
    output.check_inputs(&[input])?;
    check_kind(input, Some(input.len_bytes()))?;
    let refuse = Error::place(input.name());
    let start = input.head(HEAD_LEN_BYTES)?;
    let header_len = match safetensors::unreadable_header_len_bytes(&start, input.len_bytes()) {
        Some(len) => len,
        None => safetensors::header_len_bytes(&start, input.len_bytes()).map_err(&refuse)?,
    };
    let data_start = safetensors::PREFIX_BYTES + header_len;
    let data = Data::new(input, data_start).arriving(arriving);
    output.expect(max_packed_bytes(input));
    let packed = FilePacker::new(engine, data, options).pack(&mut output);
    // If the input has changed, the change is reported: it may have caused any other
    // error.
    let mut report = match input.check_unchanged().and(packed) {
        Ok(report) => report,
        Err(error) => return Err(output.give_up(error)),
    };
    report.input = input.name().into();
    report.output = output.path();
    report.upload = output.complete(options.progress)?;
    Ok(report)
}
