//! Opens a zip archive. Its directory is at the end and lists the members; the members
//! that describe tensors are fetched next. They decide whether the file is an NPZ file, a
//! PyTorch file or a Keras model.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use super::FileCatalog;
use super::file_opener::FetchedRanges;
use super::format::Opener;
#[cfg(feature = "keras")]
use super::keras;
use super::{npz, pytorch};
use crate::container::foreign::zip::{
    Archive, END_64_DISTANCE_BYTES, END_DISTANCE_BYTES, End, Member, Packing,
};
use crate::engine::Engine;
use crate::limits::HEAD_LEN_BYTES;
use crate::{Error, Result, Rule, bytes};

/// The gap up to which the members to fetch share a range, in bytes.
const GAP_BYTES: u64 = 4 << 10;

/// The longest range that members share, in bytes.
const JOINED_BYTES: u64 = 1 << 20;

/// The number of bytes that are fetched for the pickle of a PyTorch file together with
/// the end of the file, if it does not end in the head. It is enough for about 1300
/// tensors.
const PICKLE_GUESS_BYTES: u64 = 160 << 10;

/// The opener of a zip archive.
#[derive(Debug, Clone, Default)]
pub(super) struct FormatOpener {
    members: Option<Box<Members>>,
}

/// The members of an archive, once its directory has been fetched.
#[derive(Debug, Clone)]
struct Members {
    archive: Archive,
    content: Content,
    /// The requests that are still open, by the offsets of their first bytes.
    wanted: BTreeMap<u64, Wanted>,
}

#[derive(Debug, Clone)]
enum Content {
    Npz(npz::Arrays),
    PyTorch(pytorch::Members),
    #[cfg(feature = "keras")]
    Keras(keras::Members),
}

/// The beginning of a member that is required.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// The number of the member.
    pub number: usize,
    /// The range of the file, from the local header on.
    pub range: Range<u64>,
}

impl Wanted {
    /// Creates the request for the first `len_bytes` after the name of a member, or for
    /// fewer if it is shorter.
    pub(super) fn new(number: usize, member: &Member, len_bytes: u64) -> Self {
        let end = member.header().end.saturating_add(len_bytes);
        Self {
            number,
            range: member.local..end.min(member.end),
        }
    }

    /// Creates the request for a whole member, whose extra fields may have any length.
    /// Further bytes between its data and the next member are left out.
    pub(super) fn whole(number: usize, member: &Member) -> Self {
        let len_bytes = u64::from(u16::MAX).saturating_add(member.stored_len_bytes);
        Self::new(number, member, len_bytes)
    }
}

impl Content {
    fn new(archive: &Archive) -> Result<Self> {
        if let Some(members) = pytorch::Members::find(archive)? {
            return Ok(Self::PyTorch(members));
        }
        #[cfg(feature = "keras")]
        if let Some(members) = keras::Members::find(archive)? {
            return Ok(Self::Keras(members));
        }
        let arrays = npz::Arrays::find(archive);
        if arrays.is_empty() && !archive.members.is_empty() {
            let detail = "this is a zip archive without arrays of NumPy, without a checkpoint of \
                          PyTorch and without weights of Keras. If it contains a model, unpack \
                          it, and open that";
            return Err(Error::malformed(Rule::Recognised, detail).at(0));
        }
        Ok(Self::Npz(arrays))
    }

    fn wanted(&self, archive: &Archive) -> Vec<Wanted> {
        match self {
            Self::Npz(arrays) => arrays.wanted(archive),
            Self::PyTorch(members) => members.wanted(archive),
            #[cfg(feature = "keras")]
            Self::Keras(members) => members.wanted(archive),
        }
    }

    /// Adds the bytes of a request, and returns those that are required after it.
    fn supply(&mut self, archive: &Archive, wanted: &Wanted, bytes: &[u8]) -> Result<Vec<Wanted>> {
        match self {
            Self::Npz(arrays) => arrays.supply(archive, wanted, bytes),
            Self::PyTorch(members) => members.supply(archive, wanted, bytes),
            #[cfg(feature = "keras")]
            Self::Keras(members) => {
                members.supply(archive, wanted, bytes)?;
                Ok(Vec::new())
            }
        }
    }
}

/// Returns requests by the offsets of their first bytes, which differ.
fn by_start(wanted: Vec<Wanted>) -> BTreeMap<u64, Wanted> {
    let wanted = wanted.into_iter();
    wanted.map(|wanted| (wanted.range.start, wanted)).collect()
}

impl Members {
    fn new(archive: Archive) -> Result<Self> {
        let content = Content::new(&archive)?;
        Ok(Self {
            wanted: by_start(content.wanted(&archive)),
            content,
            archive,
        })
    }

    /// Uses all requested bytes that have been fetched. Only the requests that begin in
    /// them are visited: members do not overlap, so at most one of these is incomplete at
    /// the end of each range.
    fn advance(&mut self, fetched: &FetchedRanges) -> Result<()> {
        #[cfg(feature = "keras")]
        if let Content::Keras(members) = &mut self.content
            && let Some(file) = members.file()
        {
            let (start, bytes) = fetched.window();
            return file.supply(start, bytes);
        }
        for fetched_range in fetched.ranges() {
            let mut pending: Vec<Wanted> = self
                .wanted
                .range(fetched_range)
                .map(|(_, wanted)| wanted.clone())
                .collect();
            while let Some(wanted) = pending.pop() {
                let start = wanted.range.start;
                match fetched.part(wanted.range.clone()) {
                    Some(bytes) => {
                        self.wanted.remove(&start);
                        pending.append(&mut self.content.supply(&self.archive, &wanted, &bytes)?);
                    }
                    None => drop(self.wanted.insert(start, wanted)),
                }
            }
        }
        #[cfg(feature = "keras")]
        if let (Content::Keras(members), true) = (&mut self.content, self.wanted.is_empty()) {
            members.begin(fetched)?;
        }
        Ok(())
    }

    /// Returns whether a file is being opened inside of the archive. Its bytes are supplied
    /// as the window.
    fn has_file(&self) -> bool {
        match &self.content {
            #[cfg(feature = "keras")]
            Content::Keras(members) => members.is_begun(),
            _ => false,
        }
    }

    /// Returns the ranges to fetch. Members close to each other share one.
    fn needs(&self, fetched: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        #[cfg(feature = "keras")]
        if let Content::Keras(members) = &self.content
            && members.is_begun()
        {
            return members.needs();
        }
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in self.wanted.values().map(|wanted| wanted.range.clone()) {
            match joined.last_mut() {
                Some(last)
                    if range.start <= last.end.saturating_add(GAP_BYTES)
                        && range.end.saturating_sub(last.start) <= JOINED_BYTES =>
                {
                    last.end = last.end.max(range.end);
                }
                _ => joined.push(range),
            }
        }
        let (head_end, tail_start) = (fetched.head().len() as u64, fetched.tail_start());
        let missing = joined
            .into_iter()
            .map(|range| range.start.max(head_end)..range.end.min(tail_start));
        Ok(missing.filter(|range| range.start < range.end).collect())
    }
}

impl FormatOpener {
    /// Returns the ranges that are missing before the directory can be parsed: first
    /// the end of the file, then the directory.
    fn missing(fetched: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        let (len_bytes, head_end) = (fetched.len_bytes(), fetched.head().len() as u64);
        let tail_from = |start: u64| {
            let range = start.max(head_end)..fetched.tail_start();
            Vec::from_iter((range.start < range.end).then_some(range))
        };
        if let Some(end) = Self::end(fetched) {
            return Ok(tail_from(end?.directory.start));
        }
        if fetched.tail_start() < len_bytes {
            // The end was not found in the first guess.
            let furthest = END_DISTANCE_BYTES + END_64_DISTANCE_BYTES;
            return Ok(tail_from(len_bytes.saturating_sub(furthest)));
        }
        let mut ranges = Vec::new();
        let start = len_bytes.saturating_sub(HEAD_LEN_BYTES).max(head_end);
        if pytorch::is_pickle_cut(fetched.head()) && start > head_end {
            ranges.push(head_end..PICKLE_GUESS_BYTES.clamp(head_end, start));
        }
        ranges.push(start..len_bytes);
        ranges.retain(|range| range.start < range.end);
        Ok(ranges)
    }

    /// Parses the end record; `None` if more bytes are required to find it.
    fn end(fetched: &FetchedRanges) -> Option<Result<End>> {
        let len_bytes = fetched.len_bytes();
        let from = fetched.tail_from();
        if from == len_bytes {
            return None;
        }
        let furthest = len_bytes.saturating_sub(END_DISTANCE_BYTES + END_64_DISTANCE_BYTES);
        let tail = fetched.have(from.max(furthest)..len_bytes);
        match End::parse(&tail, len_bytes) {
            Err(_) if from > furthest => None,
            end => Some(end),
        }
    }
}

impl Opener for FormatOpener {
    fn needs(&self, fetched: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        match &self.members {
            Some(members) => members.needs(fetched),
            None => Self::missing(fetched),
        }
    }

    fn supply(&self, fetched: &mut FetchedRanges, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        let end = offset_bytes.checked_add(bytes.len() as u64);
        let is_touching =
            offset_bytes == fetched.head().len() as u64 || end == Some(fetched.tail_start());
        let is_window = |members: &Members| members.has_file() || !is_touching;
        if self.members.as_deref().is_some_and(is_window) {
            // Members may be anywhere in the file.
            fetched.supply_window(offset_bytes, bytes);
            return Ok(());
        }
        fetched.supply(offset_bytes, bytes)
    }

    fn advance(&mut self, fetched: &FetchedRanges) -> Result<()> {
        if self.members.is_none()
            && let Some(end) = Self::end(fetched)
        {
            let end = end?;
            if let Some(directory) = fetched.part(end.directory.clone()) {
                let archive = Archive::parse(&directory, &end)?;
                self.members = Some(Members::new(archive)?.into());
            }
        }
        match &mut self.members {
            Some(members) => members.advance(fetched),
            None => Ok(()),
        }
    }

    fn finish<E: Engine>(self, fetched: &FetchedRanges, engine: &E) -> Result<FileCatalog> {
        #[cfg(not(feature = "keras"))]
        let _ = engine;
        let missing = || Error::invalid_input("not all requested ranges were supplied");
        let Members {
            archive, content, ..
        } = *self.members.ok_or_else(missing)?;
        match content {
            Content::Npz(arrays) => arrays.finish(&archive, fetched.len_bytes()),
            Content::PyTorch(members) => members.finish(&archive, fetched),
            #[cfg(feature = "keras")]
            Content::Keras(members) => members.finish(fetched, engine),
        }
    }
}

/// Returns the first bytes of the data of a member, given those of `wanted`, and the
/// range of all its data.
pub(super) fn data<'a>(
    member: &Member,
    wanted: &Wanted,
    fetched: &'a [u8],
) -> Result<(&'a [u8], Range<u64>)> {
    let header = member.header().end - member.local;
    let header = fetched.get(..bytes::index(header)).unwrap_or_default();
    let data = member.data(header)?;
    let start = data.start.min(wanted.range.end);
    let end = data.end.min(wanted.range.end);
    let relative = start - wanted.range.start..end - wanted.range.start;
    let have = bytes::index(relative.start)..bytes::index(relative.end);
    Ok((fetched.get(have).unwrap_or_default(), data))
}

/// Unpacks the stored bytes of a tensor and decodes them. Values that are stored as they
/// are are borrowed.
pub(super) fn unpacked<'a>(
    packing: &Packing,
    stored: &'a [u8],
    decode: impl for<'b> Fn(&'b [u8]) -> Result<Cow<'b, [u8]>>,
) -> Result<Cow<'a, [u8]>> {
    match packing.unpack(stored)? {
        Cow::Borrowed(bytes) => decode(bytes),
        Cow::Owned(bytes) => {
            let decoded = match decode(&bytes)? {
                Cow::Owned(values) => Some(values),
                Cow::Borrowed(_) => None,
            };
            Ok(decoded.unwrap_or(bytes).into())
        }
    }
}
