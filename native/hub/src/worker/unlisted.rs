//! Refusals of files whose SHA-256 the hub does not list. They are found by the git object
//! ID, so that later jobs do not read these files again.

use super::commit_additions::Revision;
use super::runner::Runner;
use crate::hub::ListedFile;
use crate::manifest::{Class, Failed, key};
use zstn::Result;

/// The folder for the SHA-256 of refused files, which are named by their git object IDs.
const FOLDER: &str = "unlisted";
/// Maximum length of an entry, in bytes.
const MAX_ENTRY_BYTES: u64 = 64;

/// Returns the name of a file's entry, if the hub lists no SHA-256 for the file.
fn name(file: &ListedFile) -> Option<&str> {
    let is_id = (1..=64).contains(&file.oid.len());
    let is_id = is_id && file.oid.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_id && file.sha256.is_none()).then_some(&*file.oid)
}

impl Runner {
    /// Returns the recorded refusal of a file that would have to be read for its SHA-256.
    pub(super) fn unread_refusal(
        &self,
        revision: &Revision<'_>,
        file: &ListedFile,
    ) -> Result<Option<Failed>> {
        let Some(name) = name(file) else {
            return Ok(None);
        };
        let results = revision.results;
        let entry = results.read_file(FOLDER, name, MAX_ENTRY_BYTES)?;
        let Some(sha256) = entry.and_then(|entry| String::from_utf8(entry).ok()) else {
            return Ok(None);
        };
        let key = key((&file.path, &sha256), self.packer.options.encode());
        if results.done(&key)?.is_some() {
            return Ok(None);
        }
        let failed = results.failed(&key)?;
        Ok(failed.filter(|failed| failed.class == Class::Refused))
    }

    /// Records the SHA-256 of a refused file that was read for it.
    pub(super) fn note_refused(
        &self,
        revision: &Revision<'_>,
        file: &ListedFile,
        sha256: &str,
    ) -> Result<()> {
        if let Some(name) = name(file) {
            let results = revision.results;
            results.create_file(FOLDER, name, sha256.as_bytes())?;
        }
        Ok(())
    }
}
