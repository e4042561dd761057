//! Opens a PyTorch checkpoint. Its pickle lists the tensors; in a zip archive, the
//! storages are members, whose places usually follow from the directory.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::file_opener::FetchedRanges;
use super::format::{AnyContents, Contents, Opener, StoredTensor};
use super::range_plan::RangePlan;
use super::zip::{Wanted, data, unpacked};
use super::{FileCatalog, FileTensor, Refused};
#[cfg(feature = "virtual-headers")]
use crate::container::foreign::ElementCoding;
use crate::container::foreign::pytorch::{Checkpoint, Layout, ParsedLegacy, cut, parse_legacy};
use crate::container::foreign::zip::{Archive, Member, Packing};
#[cfg(feature = "virtual-headers")]
use crate::container::zstn::virtual_header::PlacedTensor;
use crate::engine::Engine;
use crate::limits::PICKLE_LEN_BYTES;
use crate::{Error, Result, Rule};

/// The name of the pickle, in a folder of any name.
const PICKLE: &str = "data.pkl";

/// The longest member that states the order of bytes.
const BYTE_ORDER_LEN_BYTES: u64 = 64;

/// The most tensors that may share a deflated storage of any length. It is inflated for
/// each of them.
const DEFLATED_STORAGE_TENSORS: u64 = 64;

/// The number of bytes up to which more tensors may share a deflated storage: its length
/// times the number of its tensors.
const DEFLATED_STORAGE_BYTES: u64 = 1 << 30;

/// The opener of a file from before version 1.6, whose pickles come first. It has no
/// state: the pickles are parsed again whenever more of them have been fetched, which is
/// at least half as much again each time.
#[derive(Debug, Clone, Default)]
pub(super) struct FormatOpener;

impl Opener for FormatOpener {
    fn needs(&self, fetched: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        Ok(match parse_legacy(fetched.head(), fetched.len_bytes())? {
            ParsedLegacy::Complete(..) => Vec::new(),
            ParsedLegacy::Needs(end) => fetched.missing_head(end).into_iter().collect(),
        })
    }

    fn finish<E: Engine>(self, fetched: &FetchedRanges, _: &E) -> Result<FileCatalog> {
        match parse_legacy(fetched.head(), fetched.len_bytes())? {
            ParsedLegacy::Complete(checkpoint, places) => {
                let places = places.into_iter().map(|place| {
                    let packing = Packing::plain(place.end - place.start);
                    Ok((packing, place))
                });
                FileCatalog::pytorch(checkpoint, places.collect(), fetched.len_bytes())
            }
            ParsedLegacy::Needs(_) => Err(Error::invalid_input(
                "not all requested ranges were supplied",
            )),
        }
    }
}

/// The members of an archive that describe a checkpoint.
#[derive(Debug, Clone)]
pub(super) struct Members {
    /// The name of the folder of all members, with a slash, or empty.
    folder: String,
    pickle: usize,
    byte_order: Option<usize>,
    /// The contents of the two members, once fetched.
    pickle_bytes: Option<Vec<u8>>,
    is_big_endian: Option<bool>,
    /// The tensors, once the pickle has been parsed.
    checkpoint: Option<Checkpoint>,
    /// The places of the storages' members whose local headers have been fetched, by the
    /// number of the member.
    places: BTreeMap<usize, Result<Range<u64>>>,
    /// Whether the pickle is where it is expected in PyTorch's layout, so that storages are
    /// expected in it as well.
    is_padded: bool,
}

impl Members {
    /// Finds the pickle of a checkpoint; `None` if the archive has none.
    pub(super) fn find(archive: &Archive) -> Result<Option<Self>> {
        let folders = archive.members.iter().filter_map(|member| {
            let folder = member.name.strip_suffix(PICKLE)?;
            (folder.is_empty() || folder.ends_with('/')).then_some(folder)
        });
        // The pickle of the checkpoint is not in a folder of its members.
        let Some(folder) = folders.min_by_key(|folder| folder.len()) else {
            return Ok(None);
        };
        let Some(pickle) = archive.find(&format!("{folder}{PICKLE}"))? else {
            return Ok(None);
        };
        let byte_order = archive.find(&format!("{folder}byteorder"))?;
        check_len(archive, Some(pickle), PICKLE_LEN_BYTES)?;
        check_len(archive, byte_order, BYTE_ORDER_LEN_BYTES)?;
        Ok(Some(Self {
            folder: folder.into(),
            pickle,
            byte_order,
            pickle_bytes: None,
            is_big_endian: None,
            checkpoint: None,
            places: BTreeMap::new(),
            is_padded: false,
        }))
    }

    /// Returns the requests for the members that describe the tensors.
    pub(super) fn wanted(&self, archive: &Archive) -> Vec<Wanted> {
        let numbers = [Some(self.pickle), self.byte_order].into_iter().flatten();
        let members = numbers.filter_map(|number| Some((number, archive.members.get(number)?)));
        members
            .map(|(number, member)| Wanted::whole(number, member))
            .collect()
    }

    /// Uses the bytes of a request. Returns the requests for the local headers of
    /// storages, once the pickle has been parsed.
    pub(super) fn supply(
        &mut self,
        archive: &Archive,
        wanted: &Wanted,
        bytes: &[u8],
    ) -> Result<Vec<Wanted>> {
        let Some(member) = archive.members.get(wanted.number) else {
            return Ok(Vec::new());
        };
        if self.checkpoint.is_some() {
            let place = member.data(bytes);
            self.places.insert(wanted.number, place);
            return Ok(Vec::new());
        }
        let (stored, place) = data(member, wanted, bytes)?;
        let in_file = |error: Error| error.within(place.start);
        let is_pickle = wanted.number == self.pickle;
        let packing = member.packing.clone()?.without_zero_checksum();
        let content = packing.unpack(stored).map_err(in_file)?;
        match is_pickle {
            true => {
                self.is_padded = member.padded_data() == Some(place);
                self.pickle_bytes = Some(content.into_owned());
            }
            false => self.is_big_endian = Some(is_big_endian(&content).map_err(in_file)?),
        }
        let is_big_endian = match self.byte_order {
            Some(_) => self.is_big_endian,
            None => Some(false),
        };
        let (Some(is_big_endian), Some(pickle)) = (is_big_endian, &self.pickle_bytes) else {
            return Ok(Vec::new());
        };
        let checkpoint = Checkpoint::parse(pickle, is_big_endian)?;
        self.pickle_bytes = None;
        let mut headers = Vec::new();
        for storage in &checkpoint.storages {
            if let Ok(Some(number)) = self.storage(archive, &storage.key)
                && let Some(member) = archive.members.get(number)
                && self.expected_data(member).is_none()
            {
                headers.push(Wanted::new(number, member, 0));
            }
        }
        self.checkpoint = Some(checkpoint);
        Ok(headers)
    }

    fn storage(&self, archive: &Archive, key: &str) -> Result<Option<usize>> {
        archive.find(&format!("{}data/{key}", self.folder))
    }

    /// Returns the place of a storage if it follows from the directory (docs/formats/zip.md 3).
    fn expected_data(&self, member: &Member) -> Option<Range<u64>> {
        let padded = || member.padded_data().filter(|_| self.is_padded);
        member.only_data().or_else(padded)
    }

    pub(super) fn finish(self, archive: &Archive, fetched: &FetchedRanges) -> Result<FileCatalog> {
        let missing = || Error::invalid_input("not all requested ranges were supplied");
        let checkpoint = self.checkpoint.as_ref().ok_or_else(missing)?;
        let mut places = Vec::new();
        for storage in &checkpoint.storages {
            let refuse = |detail| Err(Error::malformed(Rule::PyTorchStorage, detail));
            let number = match self.storage(archive, &storage.key) {
                Ok(number) => number,
                Err(error) => {
                    places.push(Err(error));
                    continue;
                }
            };
            let member = number.and_then(|number| Some((number, archive.members.get(number)?)));
            let Some((number, member)) = member else {
                let key = cut(&storage.key);
                places.push(refuse(format!("the archive has no member `data/{key}`")));
                continue;
            };
            let compared = match fetched.part(member.header()) {
                Some(header) => Some(member.data(&header)),
                None => self.places.get(&number).cloned(),
            };
            let is_compared = compared.is_some();
            let place = compared.or_else(|| self.expected_data(member).map(Ok));
            let place = match place.ok_or_else(missing)? {
                Ok(place) => place,
                Err(error) => {
                    places.push(Err(error));
                    continue;
                }
            };
            places.push(match &member.packing {
                Ok(_) if member.len_bytes != storage.len_bytes => refuse(format!(
                    "its storage has {} bytes, but the pickle states {}",
                    member.len_bytes, storage.len_bytes
                )),
                Ok(packing) => {
                    let packing = packing.clone().without_zero_checksum();
                    let packing = match is_compared {
                        true => packing,
                        false => packing.with_header(member, &place),
                    };
                    Ok((packing, place))
                }
                Err(error) => Err(error.clone().at(member.local)),
            });
        }
        let checkpoint = self.checkpoint.unwrap_or_default();
        FileCatalog::pytorch(checkpoint, places, fetched.len_bytes())
    }
}

/// Fails if a member has over `limit` bytes in the file, or after unpacking.
fn check_len(archive: &Archive, number: Option<usize>, limit: u64) -> Result<()> {
    let member = number.and_then(|number| archive.members.get(number));
    match member.filter(|member| member.len_bytes.max(member.stored_len_bytes) > limit) {
        Some(member) => {
            let detail = format!("`{}` has over {limit} bytes", cut(&member.name));
            Err(Error::limit(detail).at(member.local))
        }
        None => Ok(()),
    }
}

/// Parses the member that states the order of bytes.
fn is_big_endian(content: &[u8]) -> Result<bool> {
    match content.trim_ascii() {
        b"little" => Ok(false),
        b"big" => Ok(true),
        _ => {
            let detail = "the member `byteorder` is neither `little` nor `big`";
            Err(Error::malformed(Rule::PyTorchByteOrder, detail).at(0))
        }
    }
}

/// Returns whether `head`, the first bytes of a zip archive, begins with the pickle of a
/// checkpoint, and ends before it.
pub(super) fn is_pickle_cut(head: &[u8]) -> bool {
    let name_len = head.get(26..28).and_then(<[u8]>::first_chunk::<2>);
    let name_len = name_len.map_or(0, |len| usize::from(u16::from_le_bytes(*len)));
    let rest = head.get(30..).unwrap_or_default();
    let (Some(name), Some(rest)) = (rest.get(..name_len), rest.get(name_len..)) else {
        return false;
    };
    // The pickle is followed by the local header of the next member.
    name.ends_with(PICKLE.as_bytes()) && !rest.windows(4).any(|bytes| bytes == b"PK\x03\x04")
}

/// How the stored bytes of a tensor become values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    packing: Packing,
    layout: Layout,
}

/// The places of the tensors.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct FormatContents(Vec<Place>);

#[cfg(feature = "tar")]
impl FormatContents {
    /// Adds the places of the tensors of another checkpoint.
    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }
}

impl Contents for FormatContents {
    fn decode<'a, E: Engine>(&self, _: &E, stored: StoredTensor<'a, '_>) -> Result<Cow<'a, [u8]>> {
        let (dtype, shape) = (stored.tensor.dtype, &stored.tensor.shape);
        let Place { packing, layout } = &self.0[stored.number];
        unpacked(packing, stored.bytes, |bytes| {
            layout.decode(dtype, shape, bytes)
        })
        .map_err(stored.in_file())
    }

    fn unpacked_len_bytes(&self, _: &FileTensor, number: usize) -> u64 {
        let place = self.0.get(number);
        place.map_or(0, |place| place.packing.inflated_len_bytes())
    }

    fn plan(
        &self,
        tensor: &FileTensor,
        number: usize,
        span: &Range<u64>,
        _: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let Place { packing, layout } = &self.0[number];
        let is_by_rows = layout.strides.is_none() && !packing.is_inflated();
        let start = tensor.stored.start + packing.header_len_bytes();
        Ok(is_by_rows.then(|| RangePlan::of_units(start, layout.coding, span)))
    }

    #[cfg(feature = "virtual-headers")]
    fn place(&self, tensor: &FileTensor, number: usize) -> Option<PlacedTensor> {
        let Place { packing, layout } = self.0.get(number)?;
        let is_plain = !packing.is_inflated() && layout.coding == ElementCoding::Plain;
        let placed = tensor.placed_plain(is_plain, layout.strides.clone())?;
        Some(PlacedTensor {
            offset_bytes: placed.offset_bytes + packing.header_len_bytes(),
            ..placed
        })
    }

    #[cfg(feature = "decode-task")]
    fn project(&self, number: usize) -> Self {
        Self([self.0[number].clone()].into())
    }
}

impl FileCatalog {
    /// Creates the catalog of a checkpoint, given the packing and the place of each
    /// storage or the reason why it cannot be read.
    fn pytorch(
        checkpoint: Checkpoint,
        storages: Vec<Result<(Packing, Range<u64>)>>,
        file_len_bytes: u64,
    ) -> Result<Self> {
        let mut end = 0u64;
        let mut tensors: Vec<FileTensor> = Vec::new();
        let mut places: Vec<Place> = Vec::new();
        let mut first_numbers: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        let mut refused = checkpoint.refused;
        let mut users = alloc::vec![0u64; storages.len()];
        for tensor in &checkpoint.tensors {
            if let Some(count) = users.get_mut(tensor.storage) {
                *count += 1;
            }
        }
        let is_shared = |number: usize, packing: &Packing| {
            let count = users.get(number).copied().unwrap_or(0);
            count > DEFLATED_STORAGE_TENSORS
                && count.saturating_mul(packing.inflated_len_bytes()) > DEFLATED_STORAGE_BYTES
        };
        for tensor in checkpoint.tensors {
            let width = tensor.dtype.bits() / 8;
            let count = crate::tensor::element_count(&tensor.shape);
            // Listing has checked that the length fits.
            let len_bytes = count.and_then(|count| count.checked_mul(width));
            let start = end;
            let next = len_bytes.and_then(|len_bytes| start.checked_add(len_bytes));
            let next = next.ok_or_else(|| {
                Error::limit("the tensors have more bytes than 64 bits can count")
                    .tensor(&tensor.name)
            })?;
            let (packing, stored) = match storages.get(tensor.storage) {
                // A tensor without elements needs no bytes.
                _ if start == next => (Packing::plain(0), 0..0),
                Some(Ok((packing, _))) if is_shared(tensor.storage, packing) => {
                    let detail = format!(
                        "its storage is deflated, belongs to more than \
                         {DEFLATED_STORAGE_TENSORS} tensors, and has too many bytes to be \
                         inflated for each of them. Save the file again without compression"
                    );
                    refused.push((tensor.name, Error::limit(detail)));
                    continue;
                }
                Some(Ok((packing, place))) => packing.part(place, tensor.range, &[]),
                Some(Err(error)) => {
                    refused.push((tensor.name, error.clone()));
                    continue;
                }
                None => continue,
            };
            end = next;
            let number = tensors.len();
            let place = Place {
                packing,
                layout: tensor.layout,
            };
            let first = *first_numbers
                .entry((stored.start, stored.end))
                .or_insert(number);
            let is_alias = first != number
                && !stored.is_empty()
                && places.get(first) == Some(&place)
                && tensors.get(first).is_some_and(|first| {
                    first.dtype == tensor.dtype && first.shape == tensor.shape
                });
            places.push(place);
            tensors.push(FileTensor {
                name: tensor.name,
                dtype: tensor.dtype,
                shape: tensor.shape,
                span: start..end,
                stored,
                base: None,
                alias_of: is_alias.then_some(first),
            });
        }
        if let (true, Some((name, error))) = (tensors.is_empty(), refused.first()) {
            return Err(error.clone().tensor(name));
        }
        let contents = AnyContents::PyTorch(FormatContents(places));
        let metadata = checkpoint.metadata;
        let mut catalog = Self::new(contents, file_len_bytes, end, None, metadata, tensors)?;
        catalog.refused = Refused::new(refused);
        Ok(catalog)
    }
}
