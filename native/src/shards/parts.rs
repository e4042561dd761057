//! Processes the shards of a checkpoint sequentially, with one progress for all of
//! them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Context, Shard, Shards};
use crate::catalog::open_catalog;
use crate::source::parallel::{self, FILES_AT_ONCE};
use crate::source::{Local, Source};
use crate::{Error, FinishedTensor, Progress, Result};

/// All shards are inspected before the work begins, remote ones only if their server
/// supports ranges. Each shard is opened or fetched again when the work reaches it, so
/// only one file at a time needs a descriptor or disk space.
pub(super) struct Parts<'a> {
    context: Context<'a>,
    shards: &'a Shards,
    lens_bytes: Vec<u64>,
    indexed: Indexed,
}

/// The tensors that an index lists, after a comparison with the files.
#[derive(Debug, Default)]
pub(super) struct Indexed {
    /// The number of listed tensors that were found in their files.
    pub(super) found: usize,
    /// The names of listed tensors that are missing from their files.
    pub(super) missing: Vec<String>,
}

impl Indexed {
    pub(super) fn add(&mut self, other: Self) {
        self.found += other.found;
        self.missing.extend(other.missing);
    }
}

impl<'a> Parts<'a> {
    /// Inspects all files and compares them with the index. Files on servers are
    /// inspected at the same time.
    pub(super) fn open(context: Context<'a>, shards: &'a Shards) -> Result<Self> {
        let files = shards.files();
        let are_remote = files.iter().map(|shard| shard.location.is_remote());
        let at_once = parallel::at_once(are_remote, FILES_AT_ONCE);
        let opened = parallel::run(files.len(), at_once, |number| {
            let shard = &files[number];
            if !shard.location.is_remote() {
                return look(context, shard, &*shard.open(context.http)?);
            }
            let source = shard.location.open_ranged(context.http)?;
            let looked = source.map(|source| look(context, shard, &*source));
            Ok(looked.transpose()?.unwrap_or_default())
        });
        let mut parts = Self {
            context,
            shards,
            lens_bytes: Vec::new(),
            indexed: Indexed::default(),
        };
        for looked in opened? {
            parts.lens_bytes.push(looked.original_len_bytes);
            parts.indexed.add(looked.indexed);
        }
        Ok(parts)
    }

    /// Returns the known number of bytes of work on all shards.
    pub(super) fn len_bytes(&self) -> u64 {
        self.lens_bytes.iter().sum()
    }

    /// Runs `work` on the shards sequentially, with the number of the shard, its file
    /// and its progress. Returns the results and the tensors of the index.
    pub(super) fn each<T>(
        mut self,
        mut work: impl FnMut(usize, &Local, &dyn Progress) -> Result<T>,
    ) -> Result<(Vec<T>, Indexed)> {
        let mut results = Vec::new();
        for number in 0..self.lens_bytes.len() {
            let local = self.fetch(number)?;
            let part = Part {
                whole: self.context.progress,
                left_bytes: AtomicU64::new(self.lens_bytes[number]),
            };
            results.push(work(number, &local, &part)?);
            part.finish();
        }
        Ok((results, self.indexed))
    }

    fn fetch(&mut self, number: usize) -> Result<Local> {
        let shard = &self.shards.files()[number];
        let local = fetch(shard, self.context)?;
        if self.lens_bytes[number] == 0 {
            let looked = look(self.context, shard, &local)?;
            self.lens_bytes[number] = looked.original_len_bytes;
            self.indexed.add(looked.indexed);
            self.context.progress.begin(self.lens_bytes.iter().sum());
        }
        Ok(local)
    }
}

/// The result of inspecting a shard.
#[derive(Default)]
struct Looked {
    /// Length in bytes of the file that the shard is or restores.
    original_len_bytes: u64,
    /// The tensors that the index lists in this file.
    indexed: Indexed,
}

/// Looks for the tensors of a shard in its file. In a file whose format is refused, no
/// tensors are looked for; if it is not a checkpoint at all, the work itself refuses
/// it.
fn look(context: Context, shard: &Shard, source: &dyn Source) -> Result<Looked> {
    let catalog = match open_catalog(context.engine, source) {
        Ok(catalog) => catalog,
        Err(Error::Format { .. }) => {
            return Ok(Looked {
                original_len_bytes: source.len_bytes(),
                indexed: Indexed::default(),
            });
        }
        Err(other) => return Err(other),
    };
    let missing = shard.missing(&catalog);
    Ok(Looked {
        original_len_bytes: catalog.original_len_bytes(),
        indexed: Indexed {
            found: shard.tensors.len() - missing.len(),
            missing,
        },
    })
}

/// Makes the whole file of a shard available on this machine.
pub(super) fn fetch(shard: &Shard, context: Context) -> Result<Local> {
    let Context { http, progress, .. } = context;
    shard.fetch(http, &|so_far, len| progress.fetching(so_far, len))
}

/// The progress of one shard, which counts towards the progress of the whole.
struct Part<'a> {
    whole: &'a dyn Progress,
    left_bytes: AtomicU64,
}

impl Part<'_> {
    /// Counts the remaining bytes as done: no work reports headers and aliases.
    fn finish(&self) {
        self.whole.advance(self.left_bytes.load(Relaxed));
    }
}

impl Progress for Part<'_> {
    fn begin(&self, _: u64) {}

    fn advance(&self, len_bytes: u64) {
        let take = |left: u64| Some(left.saturating_sub(len_bytes));
        if let Ok(before) = self.left_bytes.fetch_update(Relaxed, Relaxed, take) {
            self.whole.advance(before.min(len_bytes));
        }
    }

    fn fetching(&self, so_far_bytes: u64, len_bytes: Option<u64>) {
        self.whole.fetching(so_far_bytes, len_bytes);
    }

    fn wants_tensors(&self) -> bool {
        self.whole.wants_tensors()
    }

    fn tensor(&self, tensor: &FinishedTensor<'_>) {
        self.whole.tensor(tensor);
    }
}

/// Returns the file of `others` that corresponds to each of `shards`: the file with the
/// same name except for the extension, or the only file if both sides have one. `role`
/// names the others in error messages.
pub(super) fn counterparts<'a>(
    shards: &Shards,
    others: &'a Shards,
    role: &str,
) -> Result<Vec<&'a Shard>> {
    if let ([_], [other]) = (shards.files(), others.files()) {
        return Ok(vec![other]);
    }
    let mut by_stem: BTreeMap<&str, &Shard> = BTreeMap::new();
    for shard in others.files() {
        by_stem.insert(stem(shard), shard);
    }
    let found: Result<Vec<&Shard>> = shards
        .files()
        .iter()
        .map(|shard| {
            by_stem.remove(stem(shard)).ok_or_else(|| {
                Error::Usage(format!(
                    "{} has no counterpart to {}; the {role} must be cut into the same shards",
                    others.location(),
                    shard.name
                ))
            })
        })
        .collect();
    let found = found?;
    match by_stem.into_values().next() {
        None => Ok(found),
        Some(more) => Err(Error::Usage(format!(
            "{} has {}, for which there is no counterpart; the {role} must be cut into the same \
             shards",
            others.location(),
            more.name
        ))),
    }
}

fn stem(shard: &Shard) -> &str {
    shard
        .name
        .rsplit_once('.')
        .map_or(&shard.name, |(stem, _)| stem)
}
