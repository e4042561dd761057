//! Writes ZSTN files.

use std::path::Path;

use zstn_core::catalog::FileKind;
use zstn_core::limits::NAME_LEN_BYTES;

use super::Written;
use super::conversion::Conversion;
use super::safetensors::{Naming, Plan, write_shards};
use crate::output::Staging;
use crate::pack::{Plain, pack_file};
use crate::progress::Part;
use crate::source::Local;
use crate::unpack::unpack_file;
use crate::{Effort, Error, PackOptions, Result};

/// Name of the temporary safetensors file that is packed if the input is in another
/// format.
const SPOOL: &str = "spool.safetensors";

pub fn write(conversion: &Conversion, effort: Effort) -> Result<Written> {
    let mut names = conversion.reader.names();
    if let Some(name) = names.find(|name| name.len() > NAME_LEN_BYTES) {
        let error = zstn_core::Error::unsupported(format!(
            "a ZSTN index has names of at most {NAME_LEN_BYTES} bytes, this one has {}; rename \
             the tensor",
            name.len()
        ));
        return Err(conversion.refuse()(error.tensor(name)));
    }
    let options = PackOptions::default()
        .effort(effort)
        .extended(conversion.options.extended);
    options.check(&conversion.job)?;
    let pack = |conversion: &Conversion, input: &Local, output: &Path| {
        let output = conversion.create(output)?;
        let packed = pack_file(&conversion.job, Plain::of(input), None, output, &options)?;
        Ok::<u64, Error>(packed.packed_bytes)
    };
    let staging = || Staging::beside(conversion.output);
    if let Some(naming) = Naming::of_index(conversion.output)? {
        let staging = staging()?;
        return write_shards(conversion, &naming, |plan, path, conversion| {
            let spool = staging.path(SPOOL);
            plan.write(&conversion.quiet(), &spool)?;
            let progress = Part::new(&conversion.job, u64::MAX);
            let part = conversion.with_job(conversion.job.clone().progress(&progress));
            pack(&part, &open(conversion, &spool)?, path)
        });
    }
    if let Some(plain) = conversion.local(FileKind::Safetensors)? {
        let len_bytes = pack(conversion, &plain, conversion.output)?;
        return Ok(Written::file(conversion, len_bytes));
    }
    let staging = staging()?;
    let spool = staging.path(SPOOL);
    match conversion.local(FileKind::Zstn)? {
        Some(packed) => {
            let output = conversion.create(&spool)?;
            unpack_file(&conversion.job.quiet(), &packed, None, output)?;
        }
        None => Plan::new(conversion, 0..conversion.tensors().len())?
            .write(&conversion.quiet(), &spool)?,
    }
    let len_bytes = pack(conversion, &open(conversion, &spool)?, conversion.output)?;
    Ok(Written::file(conversion, len_bytes))
}

/// Opens the temporary file; messages call it by the name of the input.
fn open(conversion: &Conversion, spool: &Path) -> Result<Local> {
    let file = std::fs::File::open(spool).map_err(Error::file("open", spool))?;
    Local::of_file(conversion.input.to_string(), &file)
}
