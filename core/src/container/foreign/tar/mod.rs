//! Tar archives, in which NeMo stores models (docs/formats/tar.md): a walk from header to
//! header finds the members that may be checkpoints of PyTorch: zip archives, and files
//! from before version 1.6.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::pytorch::cut;
use super::window::{Read, Stop, Walk, Window};
use super::{PYTORCH_MAGIC, ZIP_MAGICS};
use crate::bytes::index;
use crate::limits::{TAR_ARCHIVES, TAR_RECORDS_LEN_BYTES, TEXT_LEN_BYTES};
use crate::{Error, Result, Rule};
use header::{BLOCK_BYTES, Header, Kind, Replaced, refuse, text};

mod header;

pub(crate) use header::is_tar;

/// The number of bytes of a member that show what it is.
const MAGIC_LEN_BYTES: u64 = PYTORCH_MAGIC.len() as u64;

/// A member that may be a checkpoint.
#[derive(Debug, Clone)]
pub(crate) struct ArchiveMember {
    /// The name, without `./` in front; unique among these members.
    pub name: String,
    /// The range of its data in the file.
    pub data: Range<u64>,
    pub form: ArchiveForm,
}

/// The form of a member that may be a checkpoint, as its first bytes show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArchiveForm {
    Zip,
    /// A file of PyTorch from before version 1.6.
    Legacy,
}

impl ArchiveForm {
    fn of(first: &[u8]) -> Option<Self> {
        if ZIP_MAGICS.iter().any(|magic| first.starts_with(magic)) {
            return Some(Self::Zip);
        }
        first.starts_with(&PYTORCH_MAGIC).then_some(Self::Legacy)
    }
}

/// A walk through the headers of an archive.
#[derive(Debug, Clone, Default)]
pub(crate) struct TarWalk {
    /// The offset of the next header.
    position: u64,
    /// The fields of the next header that earlier ones replace.
    replaced: Replaced,
    /// The members that may be checkpoints, in the order of the file.
    pub archives: Vec<ArchiveMember>,
    /// The names of the other files, with commas between them. A long list is cut.
    pub others: String,
}

impl Walk for TarWalk {
    fn position(&self) -> u64 {
        self.position
    }

    fn walk(&mut self, window: &Window) -> Result<Option<Range<u64>>> {
        loop {
            match self.header(window) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(Stop::Needs(range)) => return Ok(Some(range)),
                Err(Stop::Refused(error)) => return Err(error),
            }
        }
    }
}

impl TarWalk {
    /// Reads the next header, and returns whether there is another one after it.
    fn header(&mut self, window: &Window) -> Read<bool> {
        let (at, len_bytes) = (self.position, window.file_len_bytes());
        if len_bytes.saturating_sub(at) < BLOCK_BYTES {
            let detail = "the tar archive has no block of zeros at its end. The file is incomplete";
            return Err(refuse(Rule::TarEnd, detail, at).into());
        }
        let block = window.read(at, at..at + BLOCK_BYTES)?;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(false);
        }
        let header = Header::parse(block, at)?;
        let size = match header.kind {
            Kind::Empty => 0,
            Kind::File | Kind::Other => self.replaced.size.unwrap_or(header.size),
            _ => header.size,
        };
        let start = at + BLOCK_BYTES;
        let end = start.checked_add(size).filter(|end| *end <= len_bytes);
        let end = end.ok_or_else(|| {
            let detail = "a member of the tar archive ends after the file. The file is incomplete";
            refuse(Rule::TarEnd, detail, at)
        })?;
        match header.kind {
            Kind::File => {
                let shown_end = end.min(start.saturating_add(MAGIC_LEN_BYTES));
                let first = window.read(at, at..shown_end)?;
                let first = first.get(index(BLOCK_BYTES)..).unwrap_or_default();
                let form = ArchiveForm::of(first);
                let replaced = core::mem::take(&mut self.replaced);
                let name = replaced.name.unwrap_or_else(|| header.name());
                self.add(name, start..end, form)?;
            }
            Kind::Records | Kind::GlobalRecords | Kind::LongName => {
                if size > TAR_RECORDS_LEN_BYTES {
                    let detail = format!(
                        "the records about a member have {size} bytes; at most \
                         {TAR_RECORDS_LEN_BYTES} are read"
                    );
                    return Err(Error::limit(detail).at(at).into());
                }
                let records = window.read(at, at..end)?;
                let records = records.get(index(BLOCK_BYTES)..).unwrap_or_default();
                self.replace(header.kind, records, start)?;
            }
            Kind::LongLink => {}
            Kind::Empty | Kind::Other => self.replaced = Replaced::default(),
        }
        self.position = end.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(end);
        Ok(true)
    }

    /// Uses the records at `at`.
    fn replace(&mut self, kind: Kind, records: &[u8], at: u64) -> Result<()> {
        if kind == Kind::LongName {
            self.replaced.name = Some(text(records).to_vec());
            return Ok(());
        }
        let found = Replaced::parse(records, at)?;
        if kind == Kind::GlobalRecords && (found.name.is_some() || found.size.is_some()) {
            let detail = "a record gives all members of the tar archive one name or length";
            return Err(refuse(Rule::TarHeader, detail, at));
        }
        let before = core::mem::take(&mut self.replaced);
        self.replaced = Replaced {
            name: found.name.or(before.name),
            size: found.size.or(before.size),
        };
        Ok(())
    }

    /// Adds a file.
    fn add(&mut self, name: Vec<u8>, data: Range<u64>, form: Option<ArchiveForm>) -> Result<()> {
        let at = data.start;
        let mut name = &*name;
        while let Some(rest) = name.strip_prefix(b"./") {
            name = rest;
        }
        let Some(form) = form else {
            self.add_other(&String::from_utf8_lossy(name));
            return Ok(());
        };
        let refuse = |detail: String| Err(refuse(Rule::TarName, detail, at));
        let Ok(name) = core::str::from_utf8(name) else {
            return refuse("the name of a checkpoint in the tar archive is not UTF-8".into());
        };
        if self.archives.iter().any(|other| other.name == name) {
            let name = cut(name);
            return refuse(format!("the tar archive has two members called `{name}`"));
        }
        if self.archives.len() >= TAR_ARCHIVES {
            let detail = format!(
                "the tar archive has more than {TAR_ARCHIVES} zip archives and PyTorch files, the \
                 most that are read"
            );
            return Err(Error::limit(detail).at(at));
        }
        self.archives.push(ArchiveMember {
            name: name.into(),
            data,
            form,
        });
        Ok(())
    }

    /// Adds the name of a file that holds no tensors.
    pub(crate) fn add_other(&mut self, name: &str) {
        let len_bytes = (self.others.len() + name.len()) as u64;
        if len_bytes < TEXT_LEN_BYTES {
            if !self.others.is_empty() {
                self.others.push_str(", ");
            }
            self.others.push_str(name);
        }
    }
}
