//! Opens a zTensor file. The manifest is near the end of the file, and the last
//! bytes give its location.

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
use super::{FileCatalog, FileTensor, Refused};
use crate::container::foreign::ztensor::{
    ElementType, FOOTER_BYTES, Field, Manifest, ManifestTensor, Shard, TensorLayout, ZTensorFooter,
};
use crate::engine::Engine;
use crate::limits::HEAD_LEN_BYTES;
use crate::{Error, Result};

/// The opener of a zTensor file. It has no state: the location of the manifest
/// is parsed from the end of the file whenever it is needed.
#[derive(Debug, Clone, Default)]
pub(super) struct FormatOpener;

impl FormatOpener {
    /// Returns the range that is missing: first the end of the file, then the rest of
    /// the manifest. The first range is as long as the head of a file
    /// ([`HEAD_LEN_BYTES`]), which is enough for the manifest of a few hundred tensors.
    fn missing(fetched: &FetchedRanges) -> Result<Option<Range<u64>>> {
        let (len_bytes, head_end) = (fetched.len_bytes(), fetched.head().len() as u64);
        let Some(footer) = footer(fetched) else {
            let guess = len_bytes.saturating_sub(HEAD_LEN_BYTES);
            return Ok(Some(guess.max(head_end)..len_bytes));
        };
        let manifest = footer?.manifest;
        if fetched.part(manifest.clone()).is_some() {
            return Ok(None);
        }
        Ok(Some(
            manifest.start.max(head_end)..manifest.end.min(fetched.tail_start()),
        ))
    }
}

impl Opener for FormatOpener {
    fn needs(&self, fetched: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        Ok(Self::missing(fetched)?.into_iter().collect())
    }

    fn supply(&self, fetched: &mut FetchedRanges, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        let is_wanted = Self::missing(fetched)?.is_some_and(|range| {
            range.start == offset_bytes && range.end - range.start == bytes.len() as u64
        });
        let end = offset_bytes.saturating_add(bytes.len() as u64);
        if is_wanted && offset_bytes != fetched.head().len() as u64 && end != fetched.tail_start() {
            // The manifest of version 2 may be anywhere in the file.
            fetched.supply_window(offset_bytes, bytes);
            return Ok(());
        }
        fetched.supply(offset_bytes, bytes)
    }

    fn finish<E: Engine>(self, fetched: &FetchedRanges, _: &E) -> Result<FileCatalog> {
        let missing = || Error::invalid_input("not all requested ranges were supplied");
        let footer = footer(fetched).ok_or_else(missing)??;
        let manifest = fetched.part(footer.manifest.clone()).ok_or_else(missing)?;
        FileCatalog::ztensor(Manifest::parse(&manifest, &footer)?, fetched.len_bytes())
    }
}

/// The entries of the manifest, which decoding requires.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FormatContents(Vec<ManifestTensor>);

impl Contents for FormatContents {
    fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        stored: StoredTensor<'a, '_>,
    ) -> Result<Cow<'a, [u8]>> {
        self.0[stored.number]
            .decode(engine, stored.bytes)
            .map_err(stored.in_file())
    }

    fn plan(
        &self,
        _: &FileTensor,
        number: usize,
        span: &Range<u64>,
        _: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let plain = self.0[number].plain();
        Ok(plain.map(|stored| {
            let range = stored.start + span.start..stored.start + span.end;
            RangePlan::stored(Vec::from_iter((!range.is_empty()).then_some(range)))
        }))
    }

    #[cfg(feature = "decode-task")]
    fn project(&self, number: usize) -> Self {
        Self([self.0[number].clone().without_fields()].into())
    }
}

/// Parses the footer; `None` until the end of the file has been fetched.
fn footer(fetched: &FetchedRanges) -> Option<Result<ZTensorFooter>> {
    let len_bytes = fetched.len_bytes();
    let tail = fetched.part(len_bytes.saturating_sub(FOOTER_BYTES)..len_bytes)?;
    Some(ZTensorFooter::parse(fetched.head(), &tail, len_bytes))
}

/// A file whose tensors another file lists (docs/formats/ztensor.md 8.4).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DataShard {
    /// The entry in the other file.
    pub entry: Shard,
    /// The tensors that are stored in this file.
    pub catalog: FileCatalog,
}

/// The place of a tensor's parts.
enum Place {
    File,
    /// The shard with this number.
    Shard(usize),
    Several,
}

impl Place {
    fn of(tensor: &ManifestTensor, shards: &BTreeMap<String, usize>) -> Self {
        let mut places = tensor.parts.iter().map(|part| part.shard.as_ref());
        let first = places.next().flatten();
        if places.any(|place| place != first) {
            return Self::Several;
        }
        match first {
            None => Self::File,
            Some(name) => shards
                .get(name)
                .map_or(Self::Several, |&number| Self::Shard(number)),
        }
    }
}

/// Returns the name of a tensor that its own file cannot read, with the reason.
fn refusal(tensor: &ManifestTensor, detail: String) -> (String, Error) {
    let name = tensor.name.clone();
    let error = Error::unsupported(detail).tensor(&name);
    (name, error)
}

impl FileCatalog {
    fn ztensor(manifest: Manifest, file_len_bytes: u64) -> Result<Self> {
        let names = manifest.shards.iter().map(|shard| shard.name.clone());
        let numbers = names.zip(0..).collect();
        let (mut own, mut refused) = (Vec::new(), Vec::new());
        let mut of_shards: Vec<Vec<ManifestTensor>> = Vec::new();
        of_shards.resize_with(manifest.shards.len(), Vec::new);
        for tensor in manifest.tensors {
            match Place::of(&tensor, &numbers) {
                Place::File => own.push(tensor),
                Place::Shard(number) => {
                    let shard = &manifest.shards[number].name;
                    let detail = format!("it is stored in another file, the shard `{shard}`");
                    refused.push(refusal(&tensor, detail));
                    of_shards[number].push(tensor.of_shard());
                }
                Place::Several => {
                    let detail = "its parts are in several files, which this version does not read";
                    refused.push(refusal(&tensor, detail.into()));
                }
            }
        }
        let mut catalog = Self::of_ztensors(own, &manifest.attributes, file_len_bytes)?;
        catalog.refused = Refused::new(refused);
        catalog.data_shards = manifest
            .shards
            .into_iter()
            .zip(of_shards)
            .filter(|(_, tensors)| !tensors.is_empty())
            .map(|(entry, tensors)| {
                let catalog = Self::of_ztensors(tensors, &[], entry.len_bytes)?;
                Ok(DataShard { entry, catalog })
            })
            .collect::<Result<_>>()?;
        Ok(catalog)
    }

    fn of_ztensors(
        all: Vec<ManifestTensor>,
        attributes: &[Field],
        file_len_bytes: u64,
    ) -> Result<Self> {
        let mut first_numbers: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        let mut end = 0u64;
        let mut tensors = Vec::new();
        for (number, tensor) in all.iter().enumerate() {
            let start = end;
            end = start.checked_add(tensor.len_bytes()).ok_or_else(|| {
                Error::limit("the tensors have more bytes than 64 bits can count")
                    .tensor(&tensor.name)
            })?;
            let stored = tensor.stored();
            let target = (!stored.is_empty())
                .then(|| {
                    *first_numbers
                        .entry((stored.start, stored.end))
                        .or_insert(number)
                })
                .filter(|&target| target != number && are_aliases(tensor, &all[target]));
            let mut shape = tensor.shape.clone();
            if tensor.element() == ElementType::Complex128 {
                // No dtype exists for this element type, so an additional last
                // dimension holds the real and the imaginary part.
                shape.push(2);
            }
            tensors.push(FileTensor {
                name: tensor.name.clone(),
                dtype: tensor.element().dtype(),
                shape,
                span: start..end,
                stored,
                base: None,
                alias_of: target,
            });
        }
        let mut texts = BTreeMap::new();
        for field in attributes {
            if let Some(text) = field.text() {
                texts.insert(field.name().into(), text.into());
            }
        }
        Self::new(
            AnyContents::ZTensor(FormatContents(all)),
            file_len_bytes,
            end,
            None,
            texts,
            tensors,
        )
    }

    /// Removes and returns the other files of a zTensor file that contain tensors
    /// of it. The tensors that they hold are not among
    /// [`FileCatalog::tensors`]. A model whose files include these catalogs can
    /// read them; otherwise it lists them as unreadable.
    #[must_use]
    pub fn take_data_shards(&mut self) -> Vec<DataShard> {
        core::mem::take(&mut self.data_shards)
    }

    /// Returns the layout, parts and fields of tensor `number` of a zTensor
    /// file, for callers that read its stored parts, or `None` for other
    /// formats.
    #[must_use]
    pub fn ztensor_tensor(&self, number: usize) -> Option<&ManifestTensor> {
        match &self.contents {
            AnyContents::ZTensor(FormatContents(tensors)) => tensors.get(number),
            _ => None,
        }
    }
}

fn are_aliases(a: &ManifestTensor, b: &ManifestTensor) -> bool {
    a.layout == TensorLayout::Dense && b.layout == TensorLayout::Dense && a.parts == b.parts
}
