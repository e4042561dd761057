//! Packs a file of a format other than safetensors, so that the container restores it
//! (docs/formats/zstn-virtual-header.md).

use zstn_core::container::zstn::virtual_header::VirtualHeader;

use super::frames::FrameCoder;
use super::tensor_data::Data;
use super::{PackOptions, check_other, finish, max_packed_bytes};
use crate::catalog::open_catalog;
use crate::delta::{self, BaseFile};
use crate::report::{PackedFile, PackedOriginal};
use crate::source::{Input, Local, Source};
use crate::unpack::{check_unchanged, files};
use crate::{Error, Job, Output, Result};

/// Packs `input` into a container, or with `bases`, the chain of its base, into the delta
/// from that base. This function does not use the bases in `options`. The tensors of the
/// file become tensors of the packed file if the format is one that zstn reads; otherwise
/// the file is packed as bytes.
///
/// # Errors
/// An output that is an input; a base for a file that is packed as bytes, or a base in
/// several files that are not safetensors; a file that is too long for a container; [`Error::Changed`] if an input
/// was written to meanwhile; I/O errors. After an error, nothing of the output is left.
pub(crate) fn pack(
    job: &Job,
    input: &Local,
    bases: &[Input],
    mut output: Output,
    options: &PackOptions,
) -> Result<PackedFile> {
    let (header, refusal) = header(job, input)?;
    if let (Some(refusal), [_, ..]) = (&refusal, bases) {
        return Err(Error::Usage(format!(
            "{} is packed as bytes, which are not stored as a delta; leave out the base: {refusal}",
            input.name()
        )));
    }
    let base = BaseFile::of_original(job, bases)?;
    check_other(input, base.as_ref())?;
    let inputs = files([Some(input), base.as_deref()]);
    output.check_inputs(&inputs)?;
    output.expect(max_packed_bytes(input));
    let original = PackedOriginal {
        kind: header.kind().into(),
        refusal,
    };
    let packed = match base.as_ref() {
        Some(base) => delta::write_original(job, (input, &header), base, &mut output, options),
        None => {
            let coder = FrameCoder::new(job, Data::new(job, input, 0), options.container);
            coder.write_original(&header, &mut output)
        }
    };
    let packed = check_unchanged(&inputs).and(packed);
    finish(job, input, output, packed, Some(original))
}

/// Returns the virtual header of a file and, if the file is packed as bytes, the reason.
fn header(job: &Job, input: &Local) -> Result<(VirtualHeader, Option<String>)> {
    let place = Error::place(input.name());
    let opened = open_catalog(&job.engine, input);
    let refusal = match opened.map(|catalog| catalog.virtual_header()) {
        Ok(Ok(header)) => return Ok((header, None)),
        Ok(Err(refusal))
        | Err(
            Error::Format {
                source: refusal, ..
            }
            | Error::Core(refusal),
        ) => refusal,
        Err(error) => return Err(error),
    };
    let header = VirtualHeader::of_bytes(input.len_bytes()).map_err(place)?;
    Ok((header, Some(refusal.to_string())))
}
