//! Reads the catalog of a file from its source.

use std::borrow::Cow;

use zstn_core::catalog::{FileCatalog, FileKind, FileOpener};

use crate::reader::state_machine::{self, Need, Work};
use crate::source::Source;
use crate::{Engine, Error, Result};

/// Reads the parts of `source` that its catalog requires, and returns the catalog.
///
/// Several servers behind one address may respond with different validators (`ETag`,
/// `Last-Modified`). Their responses can still be used, without ever combining bytes of
/// two versions of the file:
///
/// - A catalog from such responses is only returned if [`FileCatalog::is_covered`]: the
///   header and the index match their checksums in the integrity section, and that
///   section matches its own, so all three belong together.
/// - Every tensor that is read with this catalog has its checksum in that section. The
///   stored bytes are compared with it before the tensor is returned
///   ([`Source::read_compared`]).
/// - All other reads of such a source fail ([`Source::other_version`]).
///
/// # Errors
/// A file that is refused or cannot be read; [`Error::Changed`] if the responses have
/// different validators and the catalog is not covered by checksums, or does not match
/// them.
pub fn open_catalog(engine: &Engine, source: &dyn Source) -> Result<FileCatalog> {
    open_recognised_by(engine, source, source.name())
}

/// Opens a file that a packed file restores, like [`open_catalog`]. `kind` is the name of
/// the format that the packed file claims. It identifies a format without a magic number,
/// because the packed file's own name ends in `.zstn`.
pub(crate) fn open_restored(
    engine: &Engine,
    source: &dyn Source,
    kind: &str,
) -> Result<FileCatalog> {
    let kind = FileKind::FILES.iter().find(|known| known.name() == kind);
    let name = kind.map(|kind| format!("original.{}", kind.extension()));
    open_recognised_by(engine, source, &name.unwrap_or_default())
}

fn open_recognised_by(
    engine: &Engine,
    source: &dyn Source,
    recognised_by: &str,
) -> Result<FileCatalog> {
    let work = OpenFile {
        recognised_by: recognised_by.into(),
        ..OpenFile::new(source.name(), source.len_bytes())
    };
    let opened = state_machine::run(work, engine, |_| source);
    of_one_version(opened, source.other_version())
}

/// Refuses a catalog that may contain bytes of two versions of the file. `other_version`
/// is the result of [`Source::other_version`].
pub(crate) fn of_one_version(
    opened: Result<FileCatalog>,
    other_version: Option<Error>,
) -> Result<FileCatalog> {
    match (opened, other_version) {
        (Ok(catalog), Some(_)) if catalog.is_covered() => Ok(catalog),
        (Ok(_), Some(change)) => Err(change),
        // A mixture of two versions may break any rule of the format, so the change is
        // the more useful error.
        (Err(Error::Format { .. }), Some(change)) => Err(change),
        (opened, _) => opened,
    }
}

/// The work of reading those parts of a file that its catalog requires.
pub(crate) struct OpenFile {
    name: String,
    /// The name by which a format without a magic number is recognised.
    recognised_by: String,
    len_bytes: u64,
    /// `None` until the head of the file has been read.
    opener: Option<FileOpener>,
}

impl OpenFile {
    pub(crate) fn new(name: &str, len_bytes: u64) -> Self {
        Self {
            name: name.into(),
            recognised_by: name.into(),
            len_bytes,
            opener: None,
        }
    }
}

impl<'a> Work<'a> for OpenFile {
    type Output = FileCatalog;

    fn needs(&mut self) -> Result<Vec<Need>> {
        let need = |range, is_compared| Need {
            level: 0,
            file: 0,
            range,
            is_compared,
        };
        let Some(opener) = &self.opener else {
            let head = 0..FileOpener::head_len_bytes(self.len_bytes);
            return Ok(vec![need(head, false)]);
        };
        let needs = opener.needs().map_err(Error::place(&self.name))?;
        Ok(needs.into_iter().map(|range| need(range, true)).collect())
    }

    fn supply(&mut self, needs: Vec<Need>, bytes: Vec<Cow<'a, [u8]>>) -> Result<()> {
        let refuse = Error::place(&self.name);
        for (need, bytes) in needs.into_iter().zip(bytes) {
            match &mut self.opener {
                Some(opener) => opener.supply(need.range.start, &bytes).map_err(&refuse)?,
                None => {
                    let opener =
                        FileOpener::named(&self.recognised_by, self.len_bytes, bytes.into_owned());
                    self.opener = Some(opener.map_err(&refuse)?);
                }
            }
        }
        Ok(())
    }

    fn finish(self, engine: &Engine) -> Result<FileCatalog> {
        let refuse = Error::place(&self.name);
        let opener = match self.opener {
            Some(opener) => opener,
            None => FileOpener::named(&self.recognised_by, self.len_bytes, Vec::new())
                .map_err(&refuse)?,
        };
        opener.finish(engine).map_err(&refuse)
    }
}
