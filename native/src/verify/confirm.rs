//! Records in a packed file that the SHA-256 of its original has been compared.

use std::path::Path;

use zstn_core::container::zstn::integrity::without_claim;
use zstn_core::container::zstn::{ContainerFooter, ContainerLayout, ContainerPrefix, FOOTER_BYTES};
use zstn_core::limits::HEAD_LEN_BYTES;

use crate::source::{Local, Source};
use crate::{Error, Job, Output, Result};

/// Replaces the container at `path`, which `input` reads, with the same container whose
/// SHA-256 is not marked as claimed. The caller has compared that SHA-256. Returns false
/// if the container has no such mark; the file is then left as it is.
///
/// # Errors
/// [`Error::Changed`] if the file was written to meanwhile; [`Error::Cancelled`]; I/O
/// errors. After an error, the file is as it was.
pub(super) fn confirm(job: &Job, input: &Local, path: &Path) -> Result<bool> {
    let refuse = Error::place(input.name());
    let len_bytes = input.len_bytes();
    let prefix_len = ContainerPrefix::len_bytes(&input.head(HEAD_LEN_BYTES)?, len_bytes);
    let prefix = input.head(prefix_len.map_err(&refuse)?)?;
    let prefix = ContainerPrefix::parse(&prefix, len_bytes).map_err(&refuse)?;
    if prefix.layout == ContainerLayout::SingleFrame {
        return Ok(false);
    }
    let footer_start = len_bytes - FOOTER_BYTES;
    let footer = input.read(footer_start..len_bytes)?;
    let footer_at = ContainerFooter::parse(&footer, prefix.end(), len_bytes);
    let index = footer_at.map_err(&refuse)?.index;
    let after_index = input.read(index.end..footer_start)?;
    let Some(section) = without_claim(&after_index).map_err(&refuse)? else {
        return Ok(false);
    };
    let mut output = Output::create(path)?;
    output.like(input);
    job.feed(input, 0..index.end, &mut |piece| output.write_final(piece))?;
    output.write_final(&section)?;
    output.write_final(&footer)?;
    input.check_unchanged()?;
    output.complete(job)?;
    Ok(true)
}
