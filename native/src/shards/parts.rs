//! The shards of a checkpoint one after the other, as parts of one piece of
//! work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Context, Shard, Shards};
use crate::catalog::open_catalog;
use crate::source::parallel::{self, FILES_AT_ONCE};
use crate::source::{Map, Source};
use crate::{Error, FinishedTensor, Progress, Result};

/// Local shards are opened and looked into before work begins; remote ones
/// are looked into if their server allows it, and fetched when it is their
/// turn, so that the disk holds one at a time.
pub(super) struct Parts<'a> {
    context: Context<'a>,
    shards: &'a Shards,
    maps: Vec<Option<Map>>,
    lens_bytes: Vec<u64>,
    /// Tensors of the index that were found.
    indexed_tensors: usize,
}

impl<'a> Parts<'a> {
    /// Opens all local files and checks them against the index. Files on servers
    /// are looked into at the same time.
    pub(super) fn open(context: Context<'a>, shards: &'a Shards) -> Result<Self> {
        let files = shards.files();
        let are_remote = files.iter().map(|shard| shard.location.is_remote());
        let at_once = parallel::at_once(are_remote, FILES_AT_ONCE);
        let opened = parallel::run(files.len(), at_once, |number| {
            let shard = &files[number];
            if shard.location.is_remote() {
                let source = shard.location.open_ranged(context.http)?;
                let looked = source.map(|source| look(context, shard, &*source));
                return Ok((None, looked.transpose()?.unwrap_or_default()));
            }
            let map = shard.map(context.http, &|_, _| ())?;
            let looked = look(context, shard, &map)?;
            Ok((Some(map), looked))
        });
        let mut parts = Self {
            context,
            shards,
            maps: Vec::new(),
            lens_bytes: Vec::new(),
            indexed_tensors: 0,
        };
        for (map, looked) in opened? {
            parts.maps.push(map);
            parts.lens_bytes.push(looked.original_len_bytes);
            parts.indexed_tensors += looked.indexed_tensors;
        }
        Ok(parts)
    }

    /// Bytes of work on all of them, as far as that is known.
    pub(super) fn len_bytes(&self) -> u64 {
        self.lens_bytes.iter().sum()
    }

    /// Does the work on one shard after the other. It is given the number of
    /// the shard, its bytes and its progress. With the results comes the number
    /// of tensors of the index, all of which were found.
    pub(super) fn each<T>(
        mut self,
        mut work: impl FnMut(usize, &Map, &dyn Progress) -> Result<T>,
    ) -> Result<(Vec<T>, usize)> {
        let mut results = Vec::new();
        for number in 0..self.maps.len() {
            let map = match self.maps[number].take() {
                Some(map) => map,
                None => self.fetch(number)?,
            };
            let part = Part {
                whole: self.context.progress,
                left_bytes: AtomicU64::new(self.lens_bytes[number]),
            };
            results.push(work(number, &map, &part)?);
            part.finish();
        }
        Ok((results, self.indexed_tensors))
    }

    fn fetch(&mut self, number: usize) -> Result<Map> {
        let shard = &self.shards.files()[number];
        let map = fetch(shard, self.context)?;
        if self.lens_bytes[number] == 0 {
            let looked = look(self.context, shard, &map)?;
            self.lens_bytes[number] = looked.original_len_bytes;
            self.indexed_tensors += looked.indexed_tensors;
            self.context.progress.begin(self.lens_bytes.iter().sum());
        }
        Ok(map)
    }
}

/// What looking into a shard has shown.
#[derive(Default)]
struct Looked {
    /// Length of the file that the shard is or restores.
    original_len_bytes: u64,
    /// Number of tensors that the index names, all of which are there.
    indexed_tensors: usize,
}

/// Looks for the tensors of a shard. Nothing can be looked for in a file that is
/// kept whole because it breaks the rules of safetensors; a file that is not a
/// checkpoint at all is refused by the work itself.
fn look(context: Context, shard: &Shard, source: &dyn Source) -> Result<Looked> {
    let catalog = match open_catalog(context.engine, source) {
        Ok(catalog) => catalog,
        Err(Error::Format { .. }) => {
            return Ok(Looked {
                original_len_bytes: source.len_bytes(),
                indexed_tensors: 0,
            });
        }
        Err(other) => return Err(other),
    };
    shard.check(&catalog)?;
    Ok(Looked {
        original_len_bytes: catalog.original_len_bytes(),
        indexed_tensors: shard.tensors.len(),
    })
}

/// All of a shard.
pub(super) fn fetch(shard: &Shard, context: Context) -> Result<Map> {
    let Context { http, progress, .. } = context;
    shard.map(http, &|so_far, len| progress.fetching(so_far, len))
}

/// The progress of one shard, which is part of that of all.
struct Part<'a> {
    whole: &'a dyn Progress,
    left_bytes: AtomicU64,
}

impl Part<'_> {
    /// Counts what is not worked on, such as headers and aliases, as done.
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

/// The file of `others` that goes with each of `shards`: that of the same
/// name but for the extension, or the only one with the only one. `role` is
/// what the others are, for the refusal.
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
