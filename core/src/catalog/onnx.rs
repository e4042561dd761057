//! Opens an ONNX model. Its tensors are found by a walk through its messages.
//! Tensors with values in other files become catalogs of those files.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::file_opener::FetchedRanges;
use super::format::{AnyContents, Contents, Opener, StoredTensor};
use super::range_plan::{RangePlan, without_padding};
use super::sequential::Sequential;
use super::{FileCatalog, FileTensor, Refusals, Refused};
use crate::container::foreign::ElementCoding;
use crate::container::foreign::onnx::{
    ExternalData, OnnxModel, OnnxPlace, OnnxTensor, OnnxType, OnnxWalk, decode_typed,
};
#[cfg(feature = "virtual-headers")]
use crate::container::zstn::virtual_header::PlacedTensor;
use crate::engine::Engine;
use crate::limits::ONNX_FILES;
use crate::{Error, Result, Rule, sort};

/// The opener of an ONNX model.
#[derive(Debug, Clone, Default)]
pub(super) struct FormatOpener(Sequential<OnnxWalk>);

impl Opener for FormatOpener {
    fn needs(&self, _: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        Ok(self.0.needs().into_iter().collect())
    }

    fn supply(&self, fetched: &mut FetchedRanges, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        self.0.supply(fetched, offset_bytes, bytes)
    }

    fn advance(&mut self, fetched: &FetchedRanges) -> Result<()> {
        self.0.advance(fetched)
    }

    fn finish<E: Engine>(self, fetched: &FetchedRanges, _: &E) -> Result<FileCatalog> {
        let model = self.0.finish()?.finish()?;
        FileCatalog::onnx(model, fetched.len_bytes())
    }
}

/// Returns whether a file may be an ONNX model: it begins with the version of
/// the format, followed by the key of another field.
pub(super) fn is_plausible(head: &[u8]) -> bool {
    let [0x08, rest @ ..] = head else {
        return false;
    };
    let len = rest.iter().take(10).position(|byte| byte & 0x80 == 0);
    match len.map(|len| &rest[len + 1..]) {
        // A field that is not 0, of a wire type that is in use.
        Some([key, ..]) => *key >= 8 && matches!(key & 7, 0 | 1 | 2 | 5 | 6),
        Some([]) => true,
        None => false,
    }
}

/// How the values of a tensor are stored.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Stored {
    element: OnnxType,
    /// True if the values are numbers in fields of the tensor's message, which
    /// is then the stored range.
    is_typed: bool,
}

impl Stored {
    fn coding(self) -> ElementCoding {
        match self.element {
            OnnxType::Whole(_) => ElementCoding::Plain,
            OnnxType::Narrow(narrow) => ElementCoding::Narrow(narrow),
        }
    }
}

/// The storage of each tensor, and the tensors with values in other files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FormatContents {
    stored: Vec<Stored>,
    #[serde(skip)]
    external: Vec<ExternalFile>,
}

/// Another file, with the tensors whose values it contains.
#[derive(Debug, Clone)]
struct ExternalFile {
    location: String,
    tensors: Vec<(OnnxTensor, ExternalData)>,
}

impl Contents for FormatContents {
    fn decode<'a, E: Engine>(&self, _: &E, stored: StoredTensor<'a, '_>) -> Result<Cow<'a, [u8]>> {
        let how = self.stored[stored.number];
        let tensor = stored.tensor;
        let decoded = match how.is_typed {
            true => {
                let count = tensor.element_count();
                decode_typed(stored.bytes, how.element, count).and_then(|numbers| {
                    let widened = how.coding().decode(&numbers)?.into_owned();
                    Ok(Cow::Owned(widened))
                })
            }
            false => how.coding().decode(stored.bytes),
        };
        let decoded = decoded.map_err(stored.in_file())?;
        Ok(without_padding(decoded, tensor.len_bytes()))
    }

    fn plan(
        &self,
        tensor: &FileTensor,
        number: usize,
        span: &Range<u64>,
        _: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let how = self.stored[number];
        let start = tensor.stored.start;
        Ok((!how.is_typed).then(|| RangePlan::of_units(start, how.coding(), span)))
    }

    #[cfg(feature = "virtual-headers")]
    fn place(&self, tensor: &FileTensor, number: usize) -> Option<PlacedTensor> {
        let how = self.stored.get(number)?;
        match how.coding() {
            ElementCoding::Plain => tensor.placed_plain(!how.is_typed, None),
            _ => None,
        }
    }

    #[cfg(feature = "decode-task")]
    fn project(&self, number: usize) -> Self {
        Self {
            stored: [self.stored[number]].into(),
            external: Vec::new(),
        }
    }
}

/// Collects tensors whose values are in one file.
#[derive(Default)]
struct Listing {
    end: u64,
    tensors: Vec<FileTensor>,
    stored: Vec<Stored>,
}

impl Listing {
    fn add(&mut self, tensor: OnnxTensor, range: Range<u64>, is_typed: bool) -> Result<()> {
        let start = self.end;
        self.end = start.checked_add(tensor.len_bytes).ok_or_else(|| {
            Error::limit("the tensors have more bytes than 64 bits can count").tensor(&tensor.name)
        })?;
        self.stored.push(Stored {
            element: tensor.element,
            is_typed,
        });
        self.tensors.push(FileTensor {
            name: tensor.name,
            dtype: tensor.element.dtype(),
            shape: tensor.shape,
            span: start..self.end,
            stored: range,
            base: None,
            alias_of: None,
        });
        Ok(())
    }

    fn catalog(
        self,
        file_len_bytes: u64,
        metadata: Vec<(String, String)>,
        external: Vec<ExternalFile>,
        refused: Refusals,
    ) -> Result<FileCatalog> {
        let contents = FormatContents {
            stored: self.stored,
            external,
        };
        let mut catalog = FileCatalog::new(
            AnyContents::Onnx(contents),
            file_len_bytes,
            self.end,
            None,
            sort::map(metadata.into_iter()),
            self.tensors,
        )?;
        catalog.refused = Refused::new(refused);
        Ok(catalog)
    }
}

impl FileCatalog {
    fn onnx(model: OnnxModel, file_len_bytes: u64) -> Result<Self> {
        let mut listing = Listing::default();
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        let mut external: Vec<ExternalFile> = Vec::new();
        let mut refused = model.refused;
        for tensor in model.tensors {
            if let OnnxPlace::External(data) = &tensor.place
                && external.len() >= ONNX_FILES
                && !numbers.contains_key(&data.location)
            {
                let detail = format!(
                    "the model has values in more than {ONNX_FILES} other files, the most read"
                );
                let error = Error::limit(detail).tensor(&tensor.name);
                refused.push((tensor.name, error));
                continue;
            }
            match tensor.place.clone() {
                OnnxPlace::Raw(range) => listing.add(tensor, range, false)?,
                OnnxPlace::Typed(range) => listing.add(tensor, range, true)?,
                OnnxPlace::External(data) => {
                    let number = *numbers.entry(data.location.clone()).or_insert_with(|| {
                        external.push(ExternalFile {
                            location: data.location.clone(),
                            tensors: Vec::new(),
                        });
                        external.len() - 1
                    });
                    external[number].tensors.push((tensor, data));
                }
            }
        }
        listing.catalog(file_len_bytes, model.metadata, external, refused)
    }

    /// Returns the other files that contain values of an ONNX model's tensors:
    /// paths relative to the folder of the model, joined by `/`, without `..`
    /// (docs/formats/onnx.md 4). Files of other formats have none.
    pub fn external_files(&self) -> impl Iterator<Item = &str> {
        let files = match &self.contents {
            AnyContents::Onnx(contents) => &contents.external[..],
            _ => &[],
        };
        files.iter().map(|file| file.location.as_str())
    }

    /// Returns the catalog of the tensors with values in file `number` of
    /// [`FileCatalog::external_files`], which has `file_len_bytes`. Tensors that
    /// do not lie inside of the file are among the unreadable ones.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a number that is out
    /// of bounds.
    pub fn external(&self, number: usize, file_len_bytes: u64) -> Result<Self> {
        let mut listing = Listing::default();
        let mut refused = Vec::new();
        for (tensor, data) in &self.external_file(number)?.tensors {
            match data.range(tensor.raw_bytes, file_len_bytes) {
                Ok(range) => listing.add(tensor.clone(), range, false)?,
                Err(error) => refused.push((tensor.name.clone(), error.tensor(&tensor.name))),
            }
        }
        listing.catalog(file_len_bytes, Vec::new(), Vec::new(), refused)
    }

    /// Makes the tensors with values in some files unreadable, which cannot be
    /// opened. Each file is a number of [`FileCatalog::external_files`], with the
    /// reason for the errors. One call for all files is faster than several.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a number that is out
    /// of bounds.
    pub fn refuse_external(&mut self, files: &[(usize, String)]) -> Result<()> {
        let mut all: Refusals = Vec::new();
        for (number, reason) in files {
            let file = self.external_file(*number)?;
            all.extend(file.tensors.iter().map(|(tensor, _)| {
                let detail = format!("its values are in `{}`: {reason}", file.location);
                let error = Error::malformed(Rule::OnnxLocation, detail);
                (tensor.name.clone(), error.tensor(&tensor.name))
            }));
        }
        let known = self.refused.iter();
        all.extend(known.map(|(name, error)| (name.into(), error.clone())));
        self.refused = Refused::new(all);
        Ok(())
    }

    fn external_file(&self, number: usize) -> Result<&ExternalFile> {
        let files = match &self.contents {
            AnyContents::Onnx(contents) => &contents.external[..],
            _ => &[],
        };
        let file = files.get(number);
        file.ok_or_else(|| Error::no_such("external file", number, files.len()))
    }

    /// Returns the name of the stored element type of tensor `number` of an ONNX
    /// model, if its elements are smaller than a byte.
    pub(super) fn onnx_type(&self, number: usize) -> Option<&'static str> {
        match &self.contents {
            AnyContents::Onnx(contents) => contents.stored.get(number)?.element.narrow_name(),
            _ => None,
        }
    }
}
