//! To ZSTN.

use std::path::Path;

use zstn_core::catalog::Kind;
use zstn_core::limits::NAME_LEN_BYTES;

use super::Written;
use super::job::Job;
use super::safetensors::Plan;
use super::shards::{self, Naming};
use crate::output::Staging;
use crate::pack::pack_map;
use crate::source::Map;
use crate::{Effort, Error, PackOptions, Progress, Result, unpack_map};

/// What is packed when no safetensors file is there yet.
const SPOOL: &str = "spool.safetensors";

pub fn write(job: &Job, effort: Effort) -> Result<Written> {
    let mut names = job.reader.names();
    if let Some(name) = names.find(|name| name.len() > NAME_LEN_BYTES) {
        let error = zstn_core::Error::unsupported(format!(
            "a ZSTN index holds names of at most {NAME_LEN_BYTES} bytes, this one has {}; rename \
             the tensor",
            name.len()
        ));
        return Err(job.refuse()(error.tensor(name)));
    }
    PackOptions {
        memory_bytes: job.options.memory_bytes,
        ..PackOptions::default()
    }
    .check()?;
    let pack = |input: &Map, output: &Path, progress: &dyn Progress| {
        let options = PackOptions {
            effort,
            memory_bytes: job.options.memory_bytes,
            progress,
            ..PackOptions::default()
        };
        pack_map(job.engine, input, job.create(output)?, &options)
    };
    let staging = || Staging::beside(job.output);
    if let Some(naming) = Naming::of_index(job.output)? {
        let staging = staging()?;
        return shards::write(job, &naming, |plan, path| {
            let spool = staging.path(SPOOL);
            plan.write(&job.quiet(), &spool)?;
            let part = Part(job.options.progress);
            Ok(pack(&open(job, &spool)?, path, &part)?.packed_bytes)
        });
    }
    let progress = job.options.progress;
    if let Some(plain) = job.whole(Kind::Safetensors)? {
        let report = pack(&plain, job.output, progress)?;
        return Ok(Written::file(job, report.packed_bytes));
    }
    let staging = staging()?;
    let spool = staging.path(SPOOL);
    match job.whole(Kind::Zstn)? {
        Some(packed) => drop(unpack_map(job.engine, &packed, job.create(&spool)?, &())?),
        None => Plan::new(job, 0..job.tensors().len())?.write(&job.quiet(), &spool)?,
    }
    let report = pack(&open(job, &spool)?, job.output, progress)?;
    Ok(Written::file(job, report.packed_bytes))
}

/// The spooled file, under the name of the input.
fn open(job: &Job, spool: &Path) -> Result<Map> {
    let file = std::fs::File::open(spool).map_err(Error::file("open", spool))?;
    Map::new(job.input.to_string(), &file)
}

/// Progress of a shard, which is a part of the whole.
struct Part<'a>(&'a dyn Progress);

impl Progress for Part<'_> {
    fn begin(&self, _: u64) {}

    fn advance(&self, len_bytes: u64) {
        self.0.advance(len_bytes);
    }
}
