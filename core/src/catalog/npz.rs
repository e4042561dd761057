//! Opens an archive of NumPy arrays. Each member begins with the header of its array,
//! which is fetched with the local header of the member.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

pub(super) use super::zip::FormatOpener;

use super::format::{AnyContents, Contents, StoredTensor};
use super::range_plan::RangePlan;
use super::zip::{Wanted, data, unpacked};
use super::{FileCatalog, FileTensor, Refusals, Refused};
#[cfg(feature = "virtual-headers")]
use crate::container::foreign::ElementCoding;
use crate::container::foreign::npy::{NpyArray, NpyLayout, header_len_bytes};
use crate::container::foreign::zip::{Archive, Member, Packing, inflate_start};
#[cfg(feature = "virtual-headers")]
use crate::container::zstn::virtual_header::PlacedTensor;
use crate::engine::Engine;
use crate::limits::NPY_HEADER_LEN_BYTES;
use crate::{Error, Result, Rule};

/// The extension of the members that are arrays.
const EXTENSION: &str = ".npy";

/// The number of bytes that are fetched after the name of a member: extra fields, and the
/// header of the array.
const GUESS_BYTES: u64 = 320;

/// The length of the beginning of an array that contains the length of its header.
const PREFIX_BYTES: u64 = 12;

/// The arrays of an archive.
#[derive(Debug, Clone)]
pub(super) struct Arrays {
    /// The numbers of the members that are arrays.
    members: Vec<usize>,
    /// The arrays whose headers have been parsed, by the number of the member.
    parsed: BTreeMap<usize, Result<Array>>,
}

#[derive(Debug, Clone)]
struct Array {
    array: NpyArray,
    len_bytes: u64,
    stored: Range<u64>,
    packing: Packing,
}

impl Arrays {
    pub(super) fn find(archive: &Archive) -> Self {
        let mut members = Vec::new();
        let mut parsed = BTreeMap::new();
        for (number, member) in archive.members.iter().enumerate() {
            if member.name.ends_with(EXTENSION) {
                match archive.find(&member.name) {
                    Ok(number) => members.extend(number),
                    Err(error) => drop(parsed.insert(number, Err(error))),
                }
            }
        }
        Self { members, parsed }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.parsed.is_empty()
    }

    pub(super) fn wanted(&self, archive: &Archive) -> Vec<Wanted> {
        let members = self.members.iter();
        let members = members.filter_map(|&number| Some((number, archive.members.get(number)?)));
        members
            .map(|(number, member)| Wanted::new(number, member, GUESS_BYTES))
            .collect()
    }

    /// Parses the header of an array. Returns a longer request if it is not complete.
    pub(super) fn supply(
        &mut self,
        archive: &Archive,
        wanted: &Wanted,
        bytes: &[u8],
    ) -> Result<Vec<Wanted>> {
        let Some(member) = archive.members.get(wanted.number) else {
            return Ok(Vec::new());
        };
        let (have, place) = match data(member, wanted, bytes) {
            Ok(found) => found,
            Err(error) => {
                self.parsed.insert(wanted.number, Err(error));
                return Ok(Vec::new());
            }
        };
        match Array::parse(member, have, &place) {
            Ok(Parsed::Needs(len_bytes)) => {
                let extra = place.start - member.header().end;
                let longer = Wanted::new(wanted.number, member, extra.saturating_add(len_bytes));
                if longer.range.end > wanted.range.end {
                    return Ok([longer].into());
                }
                let detail = "an array ends inside its header";
                let error = Error::malformed(Rule::NpyHeader, detail).at(place.start);
                self.parsed.insert(wanted.number, Err(error));
            }
            Ok(Parsed::Complete(array)) => {
                self.parsed.insert(wanted.number, Ok(array));
            }
            Err(error) => {
                self.parsed.insert(wanted.number, Err(error));
            }
        }
        Ok(Vec::new())
    }

    pub(super) fn finish(self, archive: &Archive, file_len_bytes: u64) -> Result<FileCatalog> {
        let mut end = 0u64;
        let mut tensors = Vec::new();
        let mut places = Vec::new();
        let mut refused = Refusals::new();
        for (number, parsed) in self.parsed {
            let name = archive.members.get(number).map(|member| &*member.name);
            let name = name.and_then(|name| name.strip_suffix(EXTENSION));
            let name = String::from(name.unwrap_or_default());
            let array = match parsed {
                Ok(array) => array,
                Err(error) => {
                    refused.push((name, error));
                    continue;
                }
            };
            let start = end;
            end = start.saturating_add(array.len_bytes);
            if end == u64::MAX {
                let detail = "the tensors have more bytes than 64 bits can count";
                return Err(Error::limit(detail).tensor(&name));
            }
            places.push(Place {
                packing: array.packing,
                layout: array.array.layout,
            });
            tensors.push(FileTensor {
                name,
                dtype: array.array.dtype,
                shape: array.array.shape,
                span: start..end,
                stored: array.stored,
                base: None,
                alias_of: None,
            });
        }
        if let (true, Some((name, error))) = (tensors.is_empty(), refused.first()) {
            return Err(error.clone().tensor(name));
        }
        let contents = AnyContents::Npz(FormatContents(places));
        let metadata = BTreeMap::new();
        let mut catalog = FileCatalog::new(contents, file_len_bytes, end, None, metadata, tensors)?;
        catalog.refused = Refused::new(refused);
        Ok(catalog)
    }
}

enum Parsed {
    Complete(Array),
    /// The header requires this many bytes of the stored data.
    Needs(u64),
}

impl Array {
    /// Parses the header of an array in `have`, the first bytes of the data of a member,
    /// which are at `place`.
    fn parse(member: &Member, have: &[u8], place: &Range<u64>) -> Result<Parsed> {
        let packing = member.packing.clone();
        let packing = packing.map_err(|error| error.at(member.local))?;
        let len_bytes = member.len_bytes;
        let start = |wanted: u64| -> Result<Cow<[u8]>> {
            let wanted = wanted.min(len_bytes);
            Ok(match packing.is_inflated() {
                true => inflate_start(have, wanted)?.into(),
                false => have
                    .get(..crate::bytes::index(wanted.min(have.len() as u64)))
                    .unwrap_or_default()
                    .into(),
            })
        };
        let longer = |wanted: u64| match packing.is_inflated() {
            // Deflated text takes at most a little more than its own length.
            true => Parsed::Needs(2 * NPY_HEADER_LEN_BYTES),
            false => Parsed::Needs(wanted),
        };
        let prefix = start(PREFIX_BYTES)?;
        if (prefix.len() as u64) < PREFIX_BYTES.min(len_bytes) {
            return Ok(longer(PREFIX_BYTES));
        }
        let in_file = |error: Error| error.within(place.start);
        let end = header_len_bytes(&prefix, len_bytes).map_err(in_file)?;
        let header = start(end)?;
        if (header.len() as u64) < end {
            return Ok(longer(end));
        }
        let array = NpyArray::parse(&header, len_bytes).map_err(in_file)?;
        let (packing, stored) = packing.part(place, end..len_bytes, &header);
        Ok(Parsed::Complete(Self {
            array,
            len_bytes: len_bytes - end,
            stored,
            packing,
        }))
    }
}

/// How the stored bytes of an array become values.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Place {
    packing: Packing,
    layout: NpyLayout,
}

/// The places of the arrays.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FormatContents(Vec<Place>);

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
        let is_by_rows = !layout.is_fortran && !packing.is_inflated();
        let start = tensor.stored.start;
        Ok(is_by_rows.then(|| RangePlan::of_units(start, layout.coding, span)))
    }

    #[cfg(feature = "virtual-headers")]
    fn place(&self, tensor: &FileTensor, number: usize) -> Option<PlacedTensor> {
        let Place { packing, layout } = self.0.get(number)?;
        let is_plain = !packing.is_inflated() && layout.coding == ElementCoding::Plain;
        tensor.placed_plain(is_plain, layout.strides(tensor.dtype, &tensor.shape))
    }

    #[cfg(feature = "decode-task")]
    fn project(&self, number: usize) -> Self {
        Self([self.0[number].clone()].into())
    }
}
