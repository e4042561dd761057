//! Packed files in the folder of results.

use std::fs::File;

use super::{Failure, digest, stream_sha256};
use crate::manifest::Results;
use crate::source::HttpOptions;
use crate::work::packer::Packed;
use crate::{Error, Location, Output, Result};

/// Copies a packed file to where results are. It has been compared with the original,
/// so that nothing else ever appears there. A file that is there already has to be the
/// same: whoever wrote it did not live to say so.
pub(super) fn store(packed: &Packed, results: &Results, http: &HttpOptions) -> Result<(), Failure> {
    let location = results.at("packed", &packed.done.row.packed_name());
    match create(packed, &location, http) {
        Err(Error::Exists { .. }) => compare(packed, &location, http),
        other => other,
    }
    // Never the fault of the original.
    .map_err(Failure::Error)
}

fn create(packed: &Packed, location: &Location, http: &HttpOptions) -> Result<()> {
    let path = &packed.path;
    let mut output = match location {
        Location::Path(path) => Output::create_new(path),
        Location::Url(url) => Output::to_url(url, false, http),
        Location::Stdin => Err(Error::Usage("results need a folder".into())),
    }?;
    let mut file = File::open(path).map_err(Error::file("open", path))?;
    output.copy(&mut file)?;
    output.finish()
}

fn compare(packed: &Packed, location: &Location, http: &HttpOptions) -> Result<()> {
    let sha256 = match location {
        Location::Path(path) => digest(path)?,
        other => stream_sha256(other, http)?.1,
    };
    match sha256 == packed.done.packed_sha256 {
        true => Ok(()),
        false => Err(Error::Differs {
            detail: format!(
                "{location} is there already with other bytes than those that this version writes; \
                 remove it"
            ),
        }),
    }
}
