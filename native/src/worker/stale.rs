//! Packed files that are of another file than the one next to them.

use std::collections::HashMap;

use super::additions::Revision;
use super::plan::packed_path;
use super::run::Runner;
use crate::catalog::open_catalog;
use crate::hub::ListedFile;
use crate::manifest::{hex, key};
use crate::work::Failure;
use crate::{Error, Location, Result};

/// For files with a packed counterpart, by their paths: true if it restores the file.
/// Those of which that cannot be known are left out.
pub(super) type Restores = HashMap<String, bool>;

impl Runner {
    /// Compares the SHA-256 that the hub has of each file with the one in its packed
    /// counterpart. Of a counterpart that a worker of this queue has made nothing is
    /// read, of others the index. Errors of files are added to `failures`.
    pub(super) fn restores(
        &self,
        revision: &Revision<'_>,
        files: &[ListedFile],
        failures: &mut Vec<Error>,
    ) -> Result<Restores, Failure> {
        let by_path: HashMap<&str, &ListedFile> =
            files.iter().map(|file| (&*file.path, file)).collect();
        let mut restores = Restores::new();
        for file in files.iter().filter(|file| revision.has_chosen(file)) {
            let packed = packed_path(&file.path).and_then(|path| by_path.get(&*path).copied());
            let (Some(packed), Some(sha256)) = (packed, &file.sha256) else {
                continue;
            };
            if !file.path.ends_with(".safetensors") {
                continue;
            }
            if self.stop.is_requested() {
                return Err(Failure::Stopped);
            }
            let key = key(sha256, self.packer.options.encode());
            let done = revision.results.done(&key).map_err(Failure::Error)?;
            if done.is_some_and(|done| Some(done.packed_sha256) == packed.sha256) {
                restores.insert(file.path.clone(), true);
                continue;
            }
            match self
                .original_sha256(revision, packed)
                .map_err(Failure::from)
            {
                Ok(original) => {
                    let is_same = original.map(|original| original == *sha256);
                    restores.extend(is_same.map(|is_same| (file.path.clone(), is_same)));
                }
                // Not a packed file of zstn.
                Err(Failure::File(_)) => {}
                Err(Failure::Error(error)) => failures.push(error),
                Err(Failure::Stopped) => return Err(Failure::Stopped),
            }
        }
        Ok(restores)
    }

    /// Returns the SHA-256 of the file that a packed one restores, if that has it.
    fn original_sha256(
        &self,
        revision: &Revision<'_>,
        packed: &ListedFile,
    ) -> Result<Option<String>> {
        let url = revision.repository.file_url(revision.head, &packed.path);
        let source = Location::url(url).open(&self.hub.http()?)?;
        let catalog = open_catalog(&self.packer.engine, &*source)?;
        let integrity = catalog.integrity();
        Ok(integrity.and_then(|integrity| Some(hex(integrity.original_sha256()?))))
    }
}
