//! Compares a virtual header with the file that the container restores
//! (docs/formats/zstn-virtual-header.md 5).

use crate::catalog::{open_catalog, open_restored};
use crate::container::{Container, RestoredRanges};
use crate::{Error, Job, Result};

/// Checks that the tensors in the virtual header of a container are those of the file that
/// it restores. A container without a virtual header is accepted.
///
/// # Errors
/// A tensor that the restored file does not have, or has elsewhere or in another type.
pub(super) fn check(job: &Job, container: &Container) -> Result<()> {
    if !container.has_virtual_header() {
        return Ok(());
    }
    let refuse = Error::place(container.name());
    let packed = open_catalog(&job.engine, container.input())?;
    let restored = RestoredRanges::new(job, container);
    let kind = packed.original_kind().unwrap_or_default();
    let original = open_restored(&job.engine, &restored, kind);
    let original = match original {
        Ok(original) => Ok(original),
        Err(Error::Format { source, .. } | Error::Core(source)) => Err(source),
        Err(error) => return Err(error),
    };
    packed.check_original(original).map_err(refuse)
}
