//! Opens a tar archive with checkpoints of PyTorch. A walk through its headers finds the
//! zip archives and PyTorch files in it, which are opened one after the other; those that
//! are no checkpoints are left out.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::file_opener::FetchedRanges;
use super::format::{AnyContents, Contents, Opener, StoredTensor};
use super::inner_file::InnerFile;
use super::range_plan::RangePlan;
use super::sequential::Sequential;
use super::{FileCatalog, FileTensor, Refusals, Refused, pytorch, zip};
use crate::container::foreign::pytorch::cut;
use crate::container::foreign::tar::{ArchiveForm, ArchiveMember, TarWalk};
#[cfg(feature = "virtual-headers")]
use crate::container::zstn::virtual_header::PlacedTensor;
use crate::engine::Engine;
use crate::limits::{JOINED_NAMES_LEN_BYTES, NAME_LEN_BYTES};
use crate::{Error, Result, Rule};

/// The key of the metadata that lists the other members of the archive.
const OTHERS: &str = "members";

/// The opener of an archive.
#[derive(Debug, Clone, Default)]
pub(super) struct FormatOpener {
    walk: Sequential<TarWalk>,
    /// The members that may be checkpoints, once the walk is complete.
    archives: Option<Archives>,
}

/// The members of a tar archive that may be checkpoints.
#[derive(Debug, Clone)]
struct Archives {
    /// The members that have not been opened yet, in reverse order.
    waiting: Vec<ArchiveMember>,
    /// The opened members with their names. The last one may lack bytes.
    opened: Vec<(String, Opened)>,
    /// The names of the files that hold no tensors.
    walk: TarWalk,
}

/// A member that is being opened.
#[derive(Debug, Clone)]
enum Opened {
    Zip(InnerFile<zip::FormatOpener>),
    Legacy(InnerFile<pytorch::FormatOpener>),
}

impl Opened {
    fn open(member: &ArchiveMember, fetched: &FetchedRanges) -> Result<Self> {
        let data = member.data.clone();
        match member.form {
            ArchiveForm::Zip => InnerFile::open(data, fetched).map(Self::Zip),
            ArchiveForm::Legacy => InnerFile::open(data, fetched).map(Self::Legacy),
        }
    }

    fn needs(&self) -> Result<Vec<Range<u64>>> {
        match self {
            Self::Zip(file) => file.needs(),
            Self::Legacy(file) => file.needs(),
        }
    }

    fn supply(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Zip(file) => file.supply(offset_bytes, bytes),
            Self::Legacy(file) => file.supply(offset_bytes, bytes),
        }
    }

    fn finish<E: Engine>(self, len_bytes: u64, engine: &E) -> Result<FileCatalog> {
        match self {
            Self::Zip(file) => file.finish(len_bytes, engine),
            Self::Legacy(file) => file.finish(len_bytes, engine),
        }
    }
}

impl Opener for FormatOpener {
    fn needs(&self, _: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        match &self.archives {
            Some(archives) => archives.needs(),
            None => Ok(self.walk.needs().into_iter().collect()),
        }
    }

    fn supply(&self, fetched: &mut FetchedRanges, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        match &self.archives {
            Some(_) => {
                fetched.supply_window(offset_bytes, bytes);
                Ok(())
            }
            None => self.walk.supply(fetched, offset_bytes, bytes),
        }
    }

    fn advance(&mut self, fetched: &FetchedRanges) -> Result<()> {
        if let Some(archives) = &mut self.archives {
            return archives.supply(fetched);
        }
        self.walk.advance(fetched)?;
        if self.walk.needs().is_none() {
            let mut walk = core::mem::take(&mut self.walk).finish()?;
            let mut waiting = core::mem::take(&mut walk.archives);
            waiting.reverse();
            let mut archives = Archives {
                waiting,
                opened: Vec::new(),
                walk,
            };
            archives.open(fetched)?;
            self.archives = Some(archives);
        }
        Ok(())
    }

    fn finish<E: Engine>(self, fetched: &FetchedRanges, engine: &E) -> Result<FileCatalog> {
        let missing = || Error::invalid_input("not all requested ranges were supplied");
        let archives = self.archives.ok_or_else(missing)?;
        let mut walk = archives.walk;
        let mut joined = Joined::default();
        for (name, file) in archives.opened {
            let catalog = file.finish(fetched.len_bytes(), engine);
            let catalog = catalog.map_err(|error| error.file(&cut(&name)))?;
            if !joined.add(&name, catalog)? {
                walk.add_other(&name);
            }
        }
        joined.finish(walk.others, fetched.len_bytes())
    }
}

impl Archives {
    fn needs(&self) -> Result<Vec<Range<u64>>> {
        match self.opened.last() {
            Some((name, file)) => file.needs().map_err(|error| error.file(&cut(name))),
            None => Ok(Vec::new()),
        }
    }

    /// Adds the bytes of the window to the member that is being opened.
    fn supply(&mut self, fetched: &FetchedRanges) -> Result<()> {
        let (start, bytes) = fetched.window();
        if let Some((name, file)) = self.opened.last_mut()
            && let Err(error) = file.supply(start, bytes)
        {
            let name = core::mem::take(name);
            self.opened.pop();
            self.refuse(&name, error)?;
        }
        self.open(fetched)
    }

    /// Opens members until one of them lacks bytes.
    fn open(&mut self, fetched: &FetchedRanges) -> Result<()> {
        while self.needs()?.is_empty() {
            let Some(member) = self.waiting.pop() else {
                return Ok(());
            };
            match Opened::open(&member, fetched) {
                Ok(file) => self.opened.push((member.name, file)),
                Err(error) => self.refuse(&member.name, error)?,
            }
        }
        Ok(())
    }

    /// Leaves out the zip archive called `name` if it holds no model.
    ///
    /// # Errors
    /// Any other error.
    fn refuse(&mut self, name: &str, error: Error) -> Result<()> {
        if error.rule() != Some(Rule::Recognised) {
            return Err(error.file(&cut(name)));
        }
        self.walk.add_other(name);
        Ok(())
    }
}

/// The tensors of several checkpoints.
#[derive(Debug, Default)]
struct Joined {
    contents: pytorch::FormatContents,
    tensors: Vec<FileTensor>,
    refused: Refusals,
    metadata: BTreeMap<String, String>,
    /// The number of bytes of all values.
    end: u64,
    /// The number of bytes of all names.
    names_bytes: usize,
    checkpoints: usize,
}

impl Joined {
    /// Adds the tensors of the member called `member`, with its name and a slash in front
    /// of theirs. Returns whether it is a checkpoint.
    fn add(&mut self, member: &str, catalog: FileCatalog) -> Result<bool> {
        let AnyContents::PyTorch(contents) = catalog.contents else {
            return Ok(false);
        };
        self.checkpoints += 1;
        let first = self.tensors.len();
        let (start, len_bytes) = (self.end, catalog.data_len_bytes);
        self.end = start
            .checked_add(len_bytes)
            .ok_or_else(|| Error::limit("the tensors have more bytes than 64 bits can count"))?;
        for tensor in catalog.tensors {
            let name = self.joined(member, &tensor.name)?;
            self.tensors.push(FileTensor {
                name,
                span: start + tensor.span.start..start + tensor.span.end,
                alias_of: tensor.alias_of.map(|number| first + number),
                ..tensor
            });
        }
        self.contents.append(contents);
        for (name, error) in catalog.refused.iter() {
            let name = self.joined(member, name)?;
            self.refused.push((name, error.clone()));
        }
        for (key, value) in catalog.metadata {
            let key = self.joined(member, &key)?;
            self.metadata.insert(key, value);
        }
        Ok(true)
    }

    fn joined(&mut self, member: &str, name: &str) -> Result<String> {
        let joined = format!("{member}/{name}");
        self.names_bytes = self.names_bytes.saturating_add(joined.len());
        if joined.len() > NAME_LEN_BYTES || self.names_bytes > JOINED_NAMES_LEN_BYTES {
            let detail = "the names of the tensors with those of their members are too long";
            return Err(Error::limit(detail));
        }
        Ok(joined)
    }

    fn finish(self, others: String, file_len_bytes: u64) -> Result<FileCatalog> {
        if self.checkpoints == 0 {
            let detail = "this tar archive has no checkpoint of PyTorch. If it contains another \
                          model, unpack it, and open that";
            return Err(Error::malformed(Rule::TarMember, detail).at(0));
        }
        let mut metadata = self.metadata;
        if !others.is_empty() {
            metadata.insert(OTHERS.into(), others);
        }
        let contents = AnyContents::Tar(FormatContents(self.contents));
        let count = self.tensors.len();
        let mut catalog = FileCatalog::new(
            contents,
            file_len_bytes,
            self.end,
            None,
            metadata,
            self.tensors,
        )?;
        if catalog.by_name.len() != count {
            let detail = "two tensors of the tar archive have one name";
            return Err(Error::malformed(Rule::TarName, detail).at(0));
        }
        catalog.refused = Refused::new(self.refused);
        Ok(catalog)
    }
}

/// The places of the tensors of all checkpoints.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FormatContents(pytorch::FormatContents);

impl Contents for FormatContents {
    fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        stored: StoredTensor<'a, '_>,
    ) -> Result<Cow<'a, [u8]>> {
        self.0.decode(engine, stored)
    }

    fn unpacked_len_bytes(&self, tensor: &FileTensor, number: usize) -> u64 {
        self.0.unpacked_len_bytes(tensor, number)
    }

    fn plan(
        &self,
        tensor: &FileTensor,
        number: usize,
        span: &Range<u64>,
        table: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        self.0.plan(tensor, number, span, table)
    }

    #[cfg(feature = "virtual-headers")]
    fn place(&self, tensor: &FileTensor, number: usize) -> Option<PlacedTensor> {
        self.0.place(tensor, number)
    }

    #[cfg(feature = "decode-task")]
    fn project(&self, number: usize) -> Self {
        Self(self.0.project(number))
    }
}
