//! What the folder of a result will hold, known before anything is written.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::choice::{self, Choice};
use super::kind::Kind;
use super::report::{ShardReport, ShardsReport};
use super::{Index, Shards, file_names};
use crate::source::Place;
use crate::{Error, OutputFolder, Result};

/// What belongs to a checkpoint that is named by its index.
const CONFIG: &str = "config.json";

/// Most bytes it may have: real ones have some kilobytes.
const CONFIG_BYTES: u64 = 16 << 20;

/// The files of the result.
pub(super) struct Plan {
    /// Its index, if it has one.
    pub(super) index: Option<Index>,
    /// Names of its shards, by the numbers of those they are made from.
    pub(super) names: Vec<String>,
    /// Other files that come along.
    pub(super) copied: Vec<String>,
    /// What lies in the folder and does not.
    pub(super) left_out: Vec<String>,
    /// The text of the one that comes along with an index.
    config: Option<Vec<u8>>,
}

impl Plan {
    /// The result of turning the shards from one kind to another.
    pub(super) fn new(input: &Shards, from: Kind, to: Kind) -> Result<Self> {
        let index = input
            .index()
            .map(|index| from.renamed_index(index, to))
            .transpose()?;
        let names = input.files().iter().map(|file| {
            from.renamed(&file.name, to).ok_or_else(|| {
                Error::Usage(format!("{} is no .{} file", file.place, from.extension()))
            })
        });
        let names = names.collect::<Result<_>>()?;
        let mut plan = Self {
            index,
            names,
            copied: Vec::new(),
            left_out: Vec::new(),
            config: None,
        };
        match input.place() {
            Place::Path(folder) if input.is_folder() => {
                (plan.copied, plan.left_out) = others(folder, input)?;
            }
            place => {
                let config = place.beside(CONFIG).map(|place| place.small(CONFIG_BYTES));
                plan.config = config.transpose()?.flatten();
                plan.copied
                    .extend(plan.config.is_some().then(|| CONFIG.into()));
            }
        }
        plan.check_distinct(input)?;
        Ok(plan)
    }

    /// All names in the folder, sorted.
    fn all(&self) -> Vec<String> {
        let index = self.index.as_ref().map(|index| &index.name);
        let all = self.names.iter().chain(&self.copied).chain(index);
        let mut all: Vec<String> = all.cloned().collect();
        all.sort();
        all
    }

    fn check_distinct(&self, input: &Shards) -> Result<()> {
        let mut seen = BTreeSet::new();
        match self
            .all()
            .into_iter()
            .find(|name| !seen.insert(name.clone()))
        {
            None => Ok(()),
            Some(name) => Err(Error::Usage(format!(
                "{}: two files of the result would be called {name}; move the one that is there \
                 elsewhere",
                input.place()
            ))),
        }
    }

    /// Makes sure that whoever opens the result as one of these kinds finds
    /// these shards in it and not another file that lies there as well.
    pub(super) fn check_found(&self, input: &Shards, kinds: &[&str]) -> Result<()> {
        let all = self.all();
        let expected = match &self.index {
            Some(index) => Choice::Index(&index.name),
            None => Choice::File(&self.names[0]),
        };
        if choice::choose(&all, kinds).as_ref() == Ok(&expected) {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "{}: the folder holds packed files besides the checkpoint ({}), and the two could not \
             be told apart afterwards; move those elsewhere",
            input.place(),
            self.copied
                .iter()
                .filter(|name| kinds.iter().any(|kind| name.contains(&format!(".{kind}"))))
                .cloned()
                .collect::<Vec<_>>()
                .join(", "),
        )))
    }

    /// What the folder came to, with what its shards did.
    pub(super) fn report<T>(self, input: &Shards, reports: Vec<T>) -> ShardsReport<T> {
        let files = input.files().iter().zip(self.names).zip(reports);
        ShardsReport {
            index: self.index.map(|index| index.name),
            shards: files
                .map(|((file, output), report)| ShardReport {
                    input: file.name.clone(),
                    output,
                    report,
                })
                .collect(),
            copied: self.copied,
            left_out: self.left_out,
        }
    }

    /// Writes everything but the shards.
    pub(super) fn write_others(&self, input: &Shards, folder: &OutputFolder) -> Result<()> {
        for name in &self.copied {
            match (input.place(), &self.config) {
                (_, Some(text)) => folder.write(name, text.as_slice())?,
                (Place::Path(path), None) => {
                    let path = path.join(name);
                    let file = fs::File::open(&path).map_err(Error::file("open", &path))?;
                    folder.write(name, file)?;
                }
                _ => {}
            }
        }
        match &self.index {
            Some(index) => folder.write(&index.name, index.text.as_slice()),
            None => Ok(()),
        }
    }
}

/// The other files at the top of the folder, and what else there is.
fn others(folder: &Path, input: &Shards) -> Result<(Vec<String>, Vec<String>)> {
    let mut copied = file_names(folder)?;
    let listed: BTreeSet<String> = copied.iter().cloned().collect();
    let mut own: BTreeSet<&str> = input.files().iter().map(|f| f.name.as_str()).collect();
    own.extend(input.index().map(|index| index.name.as_str()));
    copied.retain(|name| !own.contains(name.as_str()));
    let unreadable = || Error::file("list", folder);
    let mut left_out = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable())? {
        let name = entry.map_err(unreadable())?.file_name();
        let name = name.to_string_lossy();
        if !listed.contains(&*name) {
            left_out.push(name.into_owned());
        }
    }
    left_out.sort();
    Ok((copied, left_out))
}
