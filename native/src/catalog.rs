//! The catalog of a file, read from its source.

use zstn_core::catalog::{FileCatalog, FileOpener};

use crate::source::{Source, Wanted, read_wanted};
use crate::{Engine, Error, Result};

/// Reads what the catalog of `source` needs.
///
/// Servers behind one address may answer with different validators (`ETag`,
/// `Last-Modified`). Their answers may still be used, and no bytes of two versions of
/// the file are ever put together:
///
/// - The catalog of a mixture is only returned if [`FileCatalog::is_covered`]: header
///   and index have the checksums in the integrity section, and the section has its
///   own, so that all three belong together, whichever answers they came in.
/// - Every tensor read by that catalog has its checksum in that section, which is
///   compared with the stored bytes before the tensor is returned
///   ([`Source::read_compared`]).
/// - All other reads of such a source are errors ([`Source::other_version`]).
///
/// # Errors
/// A file that is refused or cannot be read; [`Error::Changed`] if the answers are of
/// several versions and are not covered by checksums, or do not have them.
pub fn open_catalog(engine: &Engine, source: &dyn Source) -> Result<FileCatalog> {
    let opened = open(engine, source);
    match (opened, source.other_version()) {
        (Ok(catalog), Some(_)) if catalog.is_covered() => Ok(catalog),
        (Ok(_), Some(change)) => Err(change),
        // Parts of two versions may break any rule.
        (Err(Error::Format { .. }), Some(change)) => Err(change),
        (opened, _) => opened,
    }
}

fn open(engine: &Engine, source: &dyn Source) -> Result<FileCatalog> {
    let refuse = Error::place(source.name());
    let len = source.len_bytes();
    let head = source
        .read(0..FileOpener::head_len_bytes(len))?
        .into_owned();
    let mut opener = FileOpener::new(len, head).map_err(&refuse)?;
    loop {
        let needs = opener.needs().map_err(&refuse)?;
        if needs.is_empty() {
            return opener.finish(engine).map_err(&refuse);
        }
        let wanted = needs.iter().map(|range| Wanted {
            source,
            range: range.clone(),
            is_compared: true,
        });
        let parts = read_wanted(&wanted.collect::<Vec<_>>())?;
        for (range, bytes) in needs.into_iter().zip(parts) {
            opener.supply(range.start, &bytes).map_err(&refuse)?;
        }
    }
}
