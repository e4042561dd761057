//! Reads the catalog of a file from its source.

use zstn_core::catalog::{FileCatalog, FileOpener};

use crate::source::{Source, read_parts};
use crate::{Engine, Error, Result};

/// Reads the parts of `source` that its catalog requires, and returns the catalog.
pub fn open_catalog(engine: &Engine, source: &dyn Source) -> Result<FileCatalog> {
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
        let wanted = needs.iter().map(|range| (source, range.clone()));
        let parts = read_parts(&wanted.collect::<Vec<_>>())?;
        for (range, bytes) in needs.into_iter().zip(parts) {
            opener.supply(range.start, &bytes).map_err(&refuse)?;
        }
    }
}
