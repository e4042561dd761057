//! Writes ZSTN files.

use std::path::Path;

use zstn_core::catalog::Kind;
use zstn_core::limits::NAME_LEN_BYTES;

use super::Written;
use super::conversion::Conversion;
use super::safetensors::Plan;
use super::shards::{self, Naming};
use crate::output::Staging;
use crate::pack::pack_file;
use crate::source::Local;
use crate::unpack::unpack_file;
use crate::{Effort, Error, FinishedTensor, PackOptions, Progress, Result};

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
        .extended(conversion.options.extended)
        .memory_bytes(conversion.options.memory_bytes);
    options.check()?;
    let pack = |input: &Local, output: &Path, progress: &dyn Progress| {
        let output = conversion.create(output)?;
        let options = options.clone().progress(progress);
        pack_file(conversion.engine, input, output, &options)
    };
    let staging = || Staging::beside(conversion.output);
    if let Some(naming) = Naming::of_index(conversion.output)? {
        let staging = staging()?;
        return shards::write(conversion, &naming, |plan, path, conversion| {
            let spool = staging.path(SPOOL);
            plan.write(&conversion.quiet(), &spool)?;
            let part = Part(conversion.progress);
            Ok(pack(&open(conversion, &spool)?, path, &part)?.packed_bytes)
        });
    }
    let progress = conversion.progress;
    if let Some(plain) = conversion.local(Kind::Safetensors)? {
        let report = pack(&plain, conversion.output, progress)?;
        return Ok(Written::file(conversion, report.packed_bytes));
    }
    let staging = staging()?;
    let spool = staging.path(SPOOL);
    match conversion.local(Kind::Zstn)? {
        Some(packed) => {
            let output = conversion.create(&spool)?;
            unpack_file(conversion.engine, &packed, output, u64::MAX, &())?;
        }
        None => Plan::new(conversion, 0..conversion.tensors().len())?
            .write(&conversion.quiet(), &spool)?,
    }
    let report = pack(&open(conversion, &spool)?, conversion.output, progress)?;
    Ok(Written::file(conversion, report.packed_bytes))
}

/// Opens the temporary file; messages call it by the name of the input.
fn open(conversion: &Conversion, spool: &Path) -> Result<Local> {
    let file = std::fs::File::open(spool).map_err(Error::file("open", spool))?;
    Local::of_file(conversion.input.to_string(), &file)
}

/// The progress of one shard, which counts towards the progress of the whole.
struct Part<'a>(&'a dyn Progress);

impl Progress for Part<'_> {
    fn begin(&self, _: u64) {}

    fn advance(&self, len_bytes: u64) {
        self.0.advance(len_bytes);
    }

    fn wants_tensors(&self) -> bool {
        self.0.wants_tensors()
    }

    fn tensor(&self, tensor: &FinishedTensor<'_>) {
        self.0.tensor(tensor);
    }
}
