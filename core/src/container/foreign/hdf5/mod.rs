//! HDF5 files, as Keras and h5py write (docs/formats/hdf5.md): the datasets in all
//! groups. The structures of a file refer to each other by addresses, so parsing
//! it states which bytes are missing.

mod attribute;
mod chunk_arrays;
mod datatype;
mod file;
mod filters;
mod fractal_heap;
mod grid;
mod group;
mod header;
mod layout;
mod links;
mod lookup3;
mod record_tree;
mod values;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

pub use super::random_access::Fetched;
pub(crate) use file::{BLOCK_BYTES, superblock_at};
pub use values::{Hdf5Chunks, Hdf5Values};

use super::random_access::{Read, Stop};
use super::shape::{SIZE, element_count};
use crate::dtype::Dtype;
use crate::limits::{HDF5_DEPTH, HDF5_LINKS, HDF5_OBJECTS, JOINED_NAMES_LEN_BYTES};
use crate::{Error, Result, Rule};
use attribute::Attributes;
use datatype::{Dataspace, Element};
use file::{File, refuse};
use filters::Filter;
use group::Target;
use header::{Header, kind};
use layout::Layout;
use links::Groups;

/// A dataset that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hdf5Dataset {
    /// The path, without a leading `/`; unique within the file.
    pub name: String,
    /// The element type.
    pub dtype: Dtype,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: Vec<u64>,
    /// The length of the values in bytes.
    pub len_bytes: u64,
    /// The range of the file that contains the values or all chunks; empty if
    /// there are none.
    pub stored: Range<u64>,
    /// How the stored bytes become values.
    pub values: Hdf5Values,
}

/// The contents of a file.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Hdf5Contents {
    /// The datasets that can be read, in the order of the groups.
    pub datasets: Vec<Hdf5Dataset>,
    /// The paths of objects that cannot be read, with the reasons.
    pub refused: Vec<(String, Error)>,
    /// The attributes of groups, as text.
    pub metadata: BTreeMap<String, String>,
}

/// The result of parsing the fetched bytes of a file.
#[derive(Debug, Clone)]
pub enum ParsedHdf5 {
    /// All groups.
    Complete(Hdf5Contents),
    /// These ranges are missing. They do not overlap.
    Needs(Vec<Range<u64>>),
}

impl Hdf5Contents {
    /// Parses the groups of a file of `file_len_bytes` with its superblock at
    /// `base`, of which `fetched` returns bytes.
    ///
    /// # Errors
    /// The broken rule, if the superblock or the root group cannot be read.
    pub fn parse<'a>(fetched: &Fetched<'a>, file_len_bytes: u64, base: u64) -> Result<ParsedHdf5> {
        let (file, root) = File::open(fetched, file_len_bytes, base);
        let mut walk = Walk {
            file,
            groups: Groups::new(root.as_ref().copied().unwrap_or_default()),
            attributes: Attributes::default(),
            contents: Self::default(),
            names: BTreeSet::new(),
            names_bytes: 0,
            objects: 0,
        };
        let done = root.and_then(|root| walk.object("", root, &mut Vec::new()));
        match done {
            Ok(()) | Err(Stop::Missing) => {}
            Err(Stop::Refused(error)) => return Err(error),
        }
        walk.contents.metadata = walk.attributes.texts;
        let missing = walk.file.access.missing();
        Ok(match missing.is_empty() {
            true => ParsedHdf5::Complete(walk.contents),
            false => ParsedHdf5::Needs(missing),
        })
    }
}

struct Walk<'f, 'a> {
    file: File<'f, 'a>,
    groups: Groups,
    attributes: Attributes<'a>,
    contents: Hdf5Contents,
    names: BTreeSet<String>,
    names_bytes: usize,
    objects: usize,
}

impl Walk<'_, '_> {
    /// Visits the object with its header at `at`, inside of the groups `around`.
    fn object(&mut self, path: &str, at: u64, around: &mut Vec<u64>) -> Read<()> {
        self.objects += 1;
        if self.objects > HDF5_OBJECTS {
            let detail = format!("the file has more than {HDF5_OBJECTS} objects, the most read");
            return Err(Error::limit(detail).at(at).into());
        }
        let header = Header::read(&mut self.file, at)?;
        if header.find(kind::LAYOUT).is_some() {
            let dataset = self.dataset(path, &header)?;
            self.contents.datasets.push(dataset);
            return Ok(());
        }
        let Some(members) = self.groups.members(&mut self.file, &header)? else {
            return Ok(());
        };
        self.attributes.add(&mut self.file, path, &header);
        if around.len() >= HDF5_DEPTH {
            let detail = format!("it is inside of {HDF5_DEPTH} groups, the most that are read");
            return Err(refuse(Rule::Hdf5Group, detail, at).into());
        }
        let depth = around.len();
        around.push(at);
        for member in &members.all {
            let name = String::from_utf8_lossy(&member.name);
            let is_utf8 = core::str::from_utf8(&member.name).is_ok();
            let path = match path {
                "" => name.into_owned(),
                path => format!("{path}/{name}"),
            };
            self.names_bytes = self.names_bytes.saturating_add(path.len());
            if self.names_bytes > JOINED_NAMES_LEN_BYTES {
                let detail = "the names of all objects are too long";
                return Err(Error::limit(detail).at(at).into());
            }
            let visited = match &member.target {
                _ if !is_utf8 => Err(named("its name is not UTF-8", at)),
                _ if !self.names.insert(path.clone()) => {
                    Err(named("another object has the same path", at))
                }
                Target::Link(reason) => Err(Error::unsupported(*reason).at(at).into()),
                // A group that contains itself adds no datasets.
                Target::Header(child) if around.contains(child) => Ok(()),
                Target::Header(child) => self.object(&path, *child, around),
                Target::Path(target) => self.linked(&path, at, target, around),
            };
            around.truncate(depth + 1);
            match visited {
                // All missing bytes are requested at once.
                Ok(()) | Err(Stop::Missing) => {}
                // One object that cannot be read does not hide the others.
                Err(Stop::Refused(error)) => self.refuse(path, error),
            }
        }
        around.truncate(depth);
        Ok(())
    }

    /// Visits the object that a symbolic link in the group at `at` leads to, as `path`.
    fn linked(&mut self, path: &str, at: u64, target: &[u8], around: &mut Vec<u64>) -> Read<()> {
        let mut links_left = HDF5_LINKS;
        let file = &mut self.file;
        let found = self.groups.follow(file, at, target, &mut links_left)?;
        if around.contains(&found) {
            let detail = "it is a symbolic link to a group that contains it";
            return Err(Error::unsupported(detail).at(at).into());
        }
        self.object(path, found, around)
    }

    fn refuse(&mut self, path: String, error: Error) {
        let error = error.tensor(&path);
        self.contents.refused.push((path, error));
    }

    fn dataset(&mut self, path: &str, header: &Header) -> Read<Hdf5Dataset> {
        let lacks = |what: &str| {
            let detail = format!("it is a dataset without {what}");
            refuse(Rule::Hdf5Header, detail, header.at)
        };
        let [space, datatype, layout] = [
            (kind::DATASPACE, "a shape"),
            (kind::DATATYPE, "a type"),
            (kind::LAYOUT, "a layout"),
        ]
        .map(|(kind, what)| header.find(kind).ok_or_else(|| lacks(what)));
        let (space, datatype, layout) = (space?, datatype?, layout?);
        if [space, datatype, layout]
            .iter()
            .any(|message| message.is_shared)
        {
            let detail = "its type is stored in another object, which is not read";
            return Err(Error::unsupported(detail).at(header.at).into());
        }
        let sizes = self.file.sizes;
        let space = Dataspace::parse(datatype::fields(space, sizes, Rule::Hdf5Shape))?;
        let element = Element::parse(datatype::fields(datatype, sizes, Rule::Hdf5Type))?;
        if header.find(kind::EXTERNAL_FILES).is_some() {
            let detail = "its values are in other files, which are not read";
            return Err(refuse(Rule::Hdf5External, detail, header.at).into());
        }
        let count = element_count(&space.shape).filter(|_| !space.is_null);
        let len_bytes = count.and_then(|count| count.checked_mul(element.len_bytes));
        let Some(len_bytes) = len_bytes.filter(|len| *len <= SIZE) else {
            let detail = "its shape has no elements, or more than 2^63 - 1 elements or bytes";
            let rule = if space.is_null {
                Rule::Hdf5Shape
            } else {
                Rule::Hdf5Extent
            };
            return Err(refuse(rule, detail, header.at).into());
        };
        let filters = match header.find(kind::FILTERS) {
            Some(message) => {
                let fields = datatype::fields(message, sizes, Rule::Hdf5Layout);
                Filter::list(fields, element.len_bytes)?
            }
            None => Vec::new(),
        };
        let fill = fill(header, sizes, element.len_bytes)?;
        let is_filtered = !filters.is_empty();
        let found = Layout::read(
            &mut self.file,
            layout,
            &space,
            element.len_bytes,
            len_bytes,
            is_filtered,
        )?;
        let (stored, values) = match found {
            Layout::Contiguous(range) => (range, Hdf5Values::Contiguous(element.coding)),
            Layout::Unwritten => {
                let chunks = Hdf5Chunks {
                    coding: element.coding,
                    sizes: Vec::new(),
                    filters: Vec::new(),
                    fill,
                    chunks: Vec::new(),
                };
                (0..0, Hdf5Values::Chunked(chunks))
            }
            Layout::Chunked { chunk, chunks } => {
                let chunks = Hdf5Chunks {
                    coding: element.coding,
                    sizes: chunk,
                    filters,
                    fill,
                    chunks,
                };
                chunks.check()?;
                (chunks.stored(), Hdf5Values::Chunked(chunks))
            }
        };
        Ok(Hdf5Dataset {
            name: path.to_string(),
            dtype: element.dtype,
            shape: space.shape,
            len_bytes,
            stored,
            values,
        })
    }
}

fn named(detail: &'static str, at: u64) -> Stop {
    refuse(Rule::Hdf5Group, detail, at).into()
}

/// Returns the fill value of a dataset with elements of `element_bytes`, as it is
/// stored. Without one, it is zero.
fn fill(header: &Header, sizes: file::Sizes, element_bytes: u64) -> Result<Vec<u8>> {
    let mut fill = crate::bytes::buffer(element_bytes)?;
    let Some(message) = header.find(kind::FILL_VALUE) else {
        return Ok(fill);
    };
    let mut fields = datatype::fields(message, sizes, Rule::Hdf5Header);
    let version = fields.u8()?;
    let is_defined = match version {
        1 | 2 => {
            fields.take(2)?;
            fields.u8()? != 0 || version == 1
        }
        3 => fields.u8()? & 0x20 != 0,
        _ => {
            let detail = "the version of a fill value is unknown";
            return Err(refuse(Rule::Hdf5Header, detail, message.at));
        }
    };
    if is_defined {
        let len_bytes = fields.number(4)?;
        let value = fields.take(len_bytes)?;
        if len_bytes == element_bytes {
            fill.copy_from_slice(value);
        }
    }
    Ok(fill)
}
