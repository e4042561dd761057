//! Recognises files that are not safetensors, and packed files that restore one, by their
//! first bytes.

use std::io::Read as _;
use std::path::Path;

use zstn_core::catalog::{FileKind, recognise_named};
use zstn_core::container::{model_delta, zstn};
use zstn_core::limits::HEAD_LEN_BYTES;

use crate::Engine;
use crate::catalog::open_catalog;
use crate::pack::is_foreign;
use crate::source::{FileSource, regular};

/// Returns whether the file at `path` is neither packed nor safetensors. A file that
/// cannot be read is not.
#[must_use]
pub fn is_of_another_format(path: &Path) -> bool {
    let name = path.to_string_lossy();
    head(path).is_some_and(|(head, len_bytes)| is_foreign(&name, &head, Some(len_bytes)))
}

/// Returns whether the file at `path` has another format than safetensors that is
/// recognised by its name and its first bytes, and is not packed.
#[must_use]
pub fn is_recognised(path: &Path) -> bool {
    let name = path.to_string_lossy();
    head(path).is_some_and(|(head, len_bytes)| {
        recognise_named(&name, &head, len_bytes).is_ok_and(|kind| {
            !matches!(
                kind,
                FileKind::Safetensors | FileKind::Zstn | FileKind::Delta
            )
        })
    })
}

/// Returns whether the file at `path` is packed, and restores a file that is not
/// safetensors. A file that cannot be read does not.
#[must_use]
pub fn is_in(path: &Path) -> bool {
    let Some((head, _)) = head(path) else {
        return false;
    };
    if head.starts_with(&model_delta::MAGIC) {
        // The trailer, at the end of the file, states this.
        let opened =
            FileSource::open(path).and_then(|source| open_catalog(&Engine::default(), &source));
        return opened.is_ok_and(|catalog| catalog.original_kind().is_some());
    }
    head.starts_with(&zstn::MAGIC) && zstn::has_virtual_header(&head)
}

/// Reads the first bytes and the length of a file.
fn head(path: &Path) -> Option<(Vec<u8>, u64)> {
    let file = regular::open(path).ok()?;
    let len_bytes = file.metadata().ok()?.len();
    let mut head = Vec::new();
    file.take(HEAD_LEN_BYTES).read_to_end(&mut head).ok()?;
    Some((head, len_bytes))
}
