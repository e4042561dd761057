//! Packs checkpoints.

use zstn_core::container::zstn::OriginalSha256;

use crate::delta::{BaseFile, pack_delta};
use crate::pack::{PackOptions, breaks_rules, check_kind, pack_arriving, pack_file};
use crate::report::{PackReport, PackedFile};
use crate::shards::{PLAIN, Shards, pack_shards};
use crate::source::{Arriving, Begun, Input};
use crate::{Engine, Error, Output, Result, Sink};

/// Packs a safetensors checkpoint without losing a bit: a file into a ZSTN container,
/// or with [`PackOptions::base`] into the delta from that base. A file that breaks the
/// rules of safetensors is packed as a whole, without a base.
///
/// A sharded checkpoint, given by its folder or index, becomes a folder of containers
/// or deltas with an index (docs/formats/sharded.md). If a folder is packed, its other
/// files and subfolders are copied; if an index is packed, the `config.json` in its
/// folder is.
///
/// The same input and options result in the same bytes, regardless of the engine's
/// threads and the allowed memory.
///
/// # Errors
/// An input that is not safetensors, is cut off, or is already packed; an index that
/// does not match its files; a base that does not match; a sink that cannot take the
/// result; [`Error::Changed`](crate::Error::Changed) if the input was written to
/// meanwhile; I/O errors. After an error, nothing of the output is left.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// # let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#;
/// # let len = (header.len() as u64).to_le_bytes();
/// # std::fs::write("model.safetensors", [&len[..], header, &[1, 2, 3]].concat())?;
/// # std::fs::write("tuned.safetensors", [&len[..], header, &[1, 2, 4]].concat())?;
/// use zstn::{Effort, Engine, PackOptions};
///
/// let engine = Engine::default();
/// let options = PackOptions::default().effort(Effort::Max);
/// let report = zstn::pack(&engine, "model.safetensors", "model.zstn", &options)?;
/// println!("{} bytes of {}", report.packed_bytes(), report.original_bytes());
///
/// // A fine-tune as its difference from the model.
/// let options = PackOptions::default().base("model.zstn");
/// zstn::pack(&engine, "tuned.safetensors", "tuned.z4dm", &options)?;
/// # Ok(())
/// # }
/// ```
pub fn pack<'s>(
    engine: &Engine,
    input: impl Into<Input>,
    sink: impl Into<Sink<'s>>,
    options: &PackOptions,
) -> Result<PackReport> {
    pack_input(engine, &input.into(), sink.into(), options)
}

fn pack_input(
    engine: &Engine,
    input: &Input,
    sink: Sink,
    options: &PackOptions,
) -> Result<PackReport> {
    options.check()?;
    if let Some(shards) = Shards::open_input(input, PLAIN, &options.http)? {
        if options.original_sha256 != OriginalSha256::Computed {
            return Err(Error::Usage(format!(
                "{} is a checkpoint in several files, and a SHA-256 is for a single file; leave \
                 it out, or pack the files one by one",
                shards.location()
            )));
        }
        return pack_shards(engine, &shards, &sink.folder()?, options);
    }
    let output = sink.file(&options.http)?;
    let file = match &options.bases[..] {
        [] => pack_one(engine, input, output, options),
        bases => {
            let (http, memory_bytes) = (&options.http, options.memory_bytes);
            let local = input.fetch(http, options.progress)?;
            if breaks_rules(&local)? {
                let file = pack_file(engine, &local, output, options)?;
                return Ok(PackReport {
                    files: vec![file],
                    folder: None,
                });
            }
            let base = BaseFile::open(engine, bases, http, memory_bytes, options.progress)?;
            pack_delta(engine, &local, &base, output, options)
        }
    };
    Ok(PackReport {
        files: vec![file?],
        folder: None,
    })
}

/// Packs a file. If it has to be fetched, it is packed while it arrives.
fn pack_one(
    engine: &Engine,
    input: &Input,
    output: Output,
    options: &PackOptions,
) -> Result<PackedFile> {
    // A file that is cut off can only be recognised at its end.
    let feed = match options.allow_truncated {
        true => None,
        false => input.feed(&options.http)?,
    };
    let Some(feed) = feed else {
        let local = input.fetch(&options.http, options.progress)?;
        return pack_file(engine, &local, output, options);
    };
    let fetching = |so_far, len| options.progress.fetching(so_far, len);
    match Arriving::begin(feed, check_kind, &fetching)? {
        Begun::Arriving(arriving) => pack_arriving(engine, &arriving, output, options),
        Begun::Whole(local) => pack_file(engine, &local, output, options),
    }
}
