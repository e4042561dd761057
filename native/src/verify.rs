//! Verifies packed files: decodes everything and compares it with the stored digests
//! and with the original.

use std::ops::Range;

use zstn_core::catalog::Kind;

use crate::container::Container;
use crate::delta::Checked;
use crate::report::VerifiedFile;
use crate::source::{Local, Source};
use crate::{Engine, Error, Output, Progress, Result};

/// Decodes every frame of `input` and compares it with the file's integrity section, if
/// it has one; with `original`, compares every byte. Without an integrity section and
/// an original, damage inside stored planes stays undetected.
pub fn verify_file(
    engine: &Engine,
    input: &Local,
    original: Option<&Local>,
    progress: &dyn Progress,
) -> Result<VerifiedFile> {
    let report = verify_container(engine, input, original, progress);
    check_unchanged(&[Some(input), original])?;
    report
}

/// Checks that no file was written to meanwhile, which may have caused any other error.
fn check_unchanged(files: &[Option<&Local>]) -> Result<()> {
    let mut files = files.iter().flatten();
    files.try_for_each(|file| file.check_unchanged())
}

fn verify_container(
    engine: &Engine,
    input: &Local,
    original: Option<&Local>,
    progress: &dyn Progress,
) -> Result<VerifiedFile> {
    let container = Container::parse(engine, input, u64::MAX)?;
    let header = container.header()?;
    let expected = Original::new(input, original, &header);
    expected.check_header(container.original_len_bytes())?;
    container.decode(engine, u64::MAX, progress, |span, bytes| {
        expected.check(&span, bytes)
    })?;
    Ok(VerifiedFile {
        name: input.name().into(),
        kind: Kind::Zstn,
        packed_bytes: input.len_bytes(),
        original_bytes: container.original_len_bytes(),
        frames: container.frame_count(),
        has_digests: container.has_digests(),
        max_error: None,
    })
}

/// Restores every tensor of the delta `input` against `base` and compares it with the
/// digests in the delta's trailer, if it has one; with `original`, compares every byte.
pub fn verify_delta(
    engine: &Engine,
    input: &Local,
    base: &Local,
    original: Option<&Local>,
    memory_bytes: u64,
    progress: &dyn Progress,
) -> Result<VerifiedFile> {
    let report = verify_records(engine, input, base, original, memory_bytes, progress);
    check_unchanged(&[Some(input), Some(base), original])?;
    report
}

fn verify_records(
    engine: &Engine,
    input: &Local,
    base: &Local,
    original: Option<&Local>,
    memory_bytes: u64,
    progress: &dyn Progress,
) -> Result<VerifiedFile> {
    let checked = Checked::parse(engine, input, base, memory_bytes)?;
    let delta = &checked.table;
    let expected = Original::new(input, original, delta.header());
    expected.check_header(delta.original_len_bytes())?;
    if !delta.overlapping().is_empty() {
        // Tensors that share bytes can only be compared in the restored file.
        checked.restore(engine, &Output::temporary()?, memory_bytes, &())?;
    }
    checked.decode(engine, memory_bytes, progress, |span, bytes| {
        expected.check(&span, bytes)
    })?;
    Ok(VerifiedFile {
        name: input.name().into(),
        kind: Kind::Delta,
        packed_bytes: input.len_bytes(),
        original_bytes: delta.original_len_bytes(),
        frames: delta.records().len(),
        has_digests: delta.has_trailer(),
        max_error: None,
    })
}

/// The original file, if there is one to compare with.
struct Original<'a> {
    name: &'a str,
    original: Option<&'a Local>,
    header: &'a [u8],
}

impl<'a> Original<'a> {
    fn new(input: &'a Local, original: Option<&'a Local>, header: &'a [u8]) -> Self {
        Self {
            name: input.name(),
            original,
            header,
        }
    }

    fn data_start(&self) -> u64 {
        8 + self.header.len() as u64
    }

    fn check_header(&self, original_len_bytes: u64) -> Result<()> {
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
        let head = original.read(0..self.data_start())?;
        let (len, header) = head.split_at(8);
        if header != self.header || len != (self.header.len() as u64).to_le_bytes() {
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
