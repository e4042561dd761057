//! Reads the catalog of a file from its source.

use zstn_core::catalog::{FileCatalog, FileOpener};

use crate::source::{Source, Wanted, read_wanted};
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
    let opened = open(engine, source);
    match (opened, source.other_version()) {
        (Ok(catalog), Some(_)) if catalog.is_covered() => Ok(catalog),
        (Ok(_), Some(change)) => Err(change),
        // Bytes of two versions may break any rule.
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
