//! Verifies a packed file: decodes everything and compares it with the stored digests and
//! with the original.

use std::ops::Range;

use zstn_core::catalog::FileKind;

use crate::container::Container;
use crate::delta::Checked;
use crate::report::VerifiedFile;
use crate::source::{Local, Source};
use crate::unpack::{check_unchanged, files};
use crate::verify::virtual_header;
use crate::{Error, Job, Output, Result};

/// Decodes every frame of `input`, or every record of a delta with its `base`, and compares
/// the result with the digests in the file, if it has any; with `original`, compares every
/// byte. Without digests and an original, damage inside stored planes stays undetected. If
/// it is `fast`, the digest of the whole file is left out.
pub(crate) fn verify_file(
    job: &Job,
    input: &Local,
    base: Option<&Local>,
    original: Option<&Local>,
    fast: bool,
) -> Result<VerifiedFile> {
    let verified = match base {
        Some(base) => verify_records(job, input, base, original, fast),
        None => verify_container(job, input, original, fast),
    };
    // If a file has changed, the change is reported: it may have caused any other error.
    check_unchanged(&files([Some(input), base, original])).and(verified)
}

fn verify_container(
    job: &Job,
    input: &Local,
    original: Option<&Local>,
    fast: bool,
) -> Result<VerifiedFile> {
    let container = Container::parse(job, input)?;
    let expected = Original {
        name: input.name(),
        original,
        head: container.original_head()?,
    };
    expected.check_head(container.original_len_bytes())?;
    container.decode(job, fast, |span, bytes| expected.check(&span, bytes))?;
    virtual_header::check(job, &container)?;
    Ok(VerifiedFile {
        name: input.name().into(),
        kind: FileKind::Zstn,
        packed_bytes: input.len_bytes(),
        original_bytes: container.original_len_bytes(),
        frames: container.frame_count(),
        has_digests: container.has_digests(),
        has_file_digest: !fast && container.file_check().is_some(),
        max_error: None,
        is_confirmed: false,
    })
}

fn verify_records(
    job: &Job,
    input: &Local,
    base: &Local,
    original: Option<&Local>,
    fast: bool,
) -> Result<VerifiedFile> {
    let checked = Checked::parse(job, input, base)?;
    let delta = &checked.table;
    let expected = Original {
        name: input.name(),
        original,
        head: delta.original_head(),
    };
    expected.check_head(delta.original_len_bytes())?;
    if !checked.is_tiled() {
        // Tensors that share bytes can only be compared in the restored file.
        checked.restore(&job.quiet(), &Output::temporary()?)?;
    }
    checked.decode(job, fast, |span, bytes| expected.check(&span, bytes))?;
    Ok(VerifiedFile {
        name: input.name().into(),
        kind: FileKind::Delta,
        packed_bytes: input.len_bytes(),
        original_bytes: delta.original_len_bytes(),
        frames: delta.records().len(),
        has_digests: delta.has_trailer(),
        has_file_digest: delta.has_trailer() && !(fast && checked.is_tiled()),
        max_error: None,
        is_confirmed: false,
    })
}

/// The original file, if there is one to compare with.
struct Original<'a> {
    name: &'a str,
    original: Option<&'a Local>,
    /// The bytes of the restored file before its data.
    head: Vec<u8>,
}

impl Original<'_> {
    fn data_start(&self) -> u64 {
        self.head.len() as u64
    }

    fn check_head(&self, original_len_bytes: u64) -> Result<()> {
        let (Some(original), name) = (self.original, self.name) else {
            return Ok(());
        };
        let differs = |detail| Error::Differs { detail };
        if original.len_bytes() != original_len_bytes {
            return Err(differs(format!(
                "{name} restores {original_len_bytes} bytes, {} has {}",
                original.name(),
                original.len_bytes()
            )));
        }
        if *original.read(0..self.data_start())? != *self.head {
            return Err(differs(format!(
                "the header in {name} differs from that of {}",
                original.name()
            )));
        }
        Ok(())
    }

    fn check(&self, span: &Range<u64>, bytes: &[u8]) -> Result<()> {
        let Some(original) = self.original else {
            return Ok(());
        };
        let start = self.data_start() + span.start;
        let end = self.data_start() + span.end;
        let expected = original.read(start..end)?;
        let found = expected.iter().zip(bytes).position(|(a, b)| a != b);
        match found {
            None => Ok(()),
            Some(at) => Err(Error::Differs {
                detail: format!(
                    "{} differs from {} at byte {} of the original",
                    self.name,
                    original.name(),
                    start + at as u64
                ),
            }),
        }
    }
}
