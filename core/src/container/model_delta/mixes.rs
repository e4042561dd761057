//! A base computed from other checkpoints: the sources of a merged model, or one whose
//! elements are converted to another dtype (docs/formats/zstn-delta.md 9).

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};

use super::BaseHeader;
use super::trailer::{ShortDigest, short_digest};
use crate::bytes::Cursor;
use crate::container::safetensors::{self, HeaderTensor};
use crate::float::FloatType;
use crate::transform::mix::{Arithmetic, Mix};
use crate::{Error, Result, Rule};

/// The numbers of sources that a base may have.
const SOURCES: RangeInclusive<usize> = 1..=255;

/// How the tensors of a base are computed from tensors of several sources.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixes {
    sources: usize,
    mixes: Vec<Mix>,
    /// One for each tensor of the target, in the order of the records.
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Entry {
    /// The number of the mix, counted from 1; 0 if the base does not have the tensor.
    mix: u16,
    /// For each source that the mix uses, the number of its tensor in ascending order of the
    /// names, counted from 1; 0 for the tensor of the same name.
    tensors: Vec<u32>,
}

/// The bit of the flags that marks numbers of tensors. Without it, all names are the same.
const HAS_NUMBERS: u8 = 1;

/// The tensor of a source from which a tensor of the target is predicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counterpart {
    /// The range in the file of the source.
    pub range: Range<u64>,
    /// The number of the tensor in ascending order of the names; `None` for the one of the
    /// same name.
    number: Option<u32>,
}

impl Counterpart {
    /// Finds the counterpart of each of `tensors` in a source: the tensor of the same name,
    /// dtype and length, or a renamed one (docs/formats/zstn-delta.md 7).
    #[must_use]
    pub fn of_all(tensors: &[HeaderTensor], source: &BaseHeader) -> Vec<Option<Self>> {
        let pairing = source.pairing(tensors);
        let found = tensors.iter().map(|tensor| {
            if let Some(range) = source.reference(tensor) {
                return Some(Self {
                    range,
                    number: None,
                });
            }
            let (number, span) = pairing.find(&tensor.into())?;
            let range = source.range_of(number)?;
            let len_bytes = tensor.span.end - tensor.span.start;
            let is_whole = span == (0..range.end - range.start) && span.end == len_bytes;
            let number = u32::try_from(number).ok()?;
            is_whole.then_some(Self {
                range,
                number: Some(number),
            })
        });
        found.collect()
    }

    /// Finds the counterpart of each of `tensors` in the only source, like
    /// [`Counterpart::of_all`]. A tensor without one gets the tensor of the same name if that
    /// can be converted.
    #[must_use]
    pub fn converted(tensors: &[HeaderTensor], source: &BaseHeader) -> Vec<Option<Self>> {
        let found = Self::of_all(tensors, source);
        let found = tensors.iter().zip(found).map(|(tensor, found)| {
            found.or_else(|| {
                let number = source.number(&tensor.name)?;
                let (range, _) = source.elements_of(number, tensor)?;
                Some(Self {
                    range,
                    number: None,
                })
            })
        });
        found.collect()
    }
}

/// Returns whether most of the bytes of `tensors` have a counterpart in `source` only after a
/// conversion to another dtype.
#[must_use]
pub fn needs_conversion(tensors: &[HeaderTensor], source: &BaseHeader) -> bool {
    let mut share = ConvertedShare::default();
    for tensor in tensors {
        let number = source.number(&tensor.name);
        let number = number.filter(|&number| source.elements_of(number, tensor).is_some());
        if let Some(number) = number {
            let is_same = source.reference_to(number, tensor).is_some();
            share.add(tensor.span.end - tensor.span.start, !is_same);
        }
    }
    share.is_most()
}

/// The bytes of a target that have a counterpart of the same name, with and without a
/// conversion.
#[derive(Debug, Default)]
pub(crate) struct ConvertedShare {
    same_bytes: u64,
    converted_bytes: u64,
}

impl ConvertedShare {
    /// Adds a tensor of `len_bytes` with a counterpart.
    pub(crate) fn add(&mut self, len_bytes: u64, is_converted: bool) {
        let bytes = match is_converted {
            true => &mut self.converted_bytes,
            false => &mut self.same_bytes,
        };
        *bytes = bytes.saturating_add(len_bytes);
    }

    /// Returns whether most of the bytes need a conversion.
    pub(crate) fn is_most(&self) -> bool {
        self.converted_bytes > self.same_bytes
    }
}

/// A tensor of a source, from which a tensor of a base is computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceTensor {
    /// The number of the source.
    pub source: usize,
    /// The range of the tensor in its file.
    pub range: Range<u64>,
    /// The type of the elements; `None` for a dtype whose elements are only copied.
    pub float: Option<FloatType>,
}

/// A tensor of a base that is computed.
#[derive(Debug, Clone)]
pub struct MixedTensor {
    /// The range in the file of the base.
    pub range: Range<u64>,
    /// The type of the elements; `None` for a dtype whose elements are only copied.
    pub float: Option<FloatType>,
    /// How the elements are computed.
    pub mix: Mix,
    /// The tensors of the sources that are used, in the order of the sources.
    pub places: Vec<SourceTensor>,
}

/// Returns the length of an element in bytes. Elements that are only copied are copied byte
/// by byte.
fn width(float: Option<FloatType>) -> usize {
    float.map_or(1, FloatType::len_bytes)
}

impl MixedTensor {
    /// Extends a range of bytes to whole elements. Returns the extended range, and for each
    /// place the number of the source and the range of the same elements in its file.
    #[must_use]
    pub fn elements(&self, bytes: Range<u64>) -> (Range<u64>, Vec<(usize, Range<u64>)>) {
        let own = width(self.float) as u64;
        let elements = bytes.start / own..bytes.end.div_ceil(own);
        let places = self.places.iter().map(|place| {
            let width = width(place.float) as u64;
            let [start, end] =
                [elements.start, elements.end].map(|at| place.range.start + at * width);
            (place.source, start..end)
        });
        (elements.start * own..elements.end * own, places.collect())
    }

    /// Computes some elements of the tensor. `parts` are the bytes of the same elements of
    /// its places.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if `parts` do not have these bytes.
    pub fn compute(&self, parts: &[&[u8]], out: &mut [u8]) -> Result<()> {
        let elements = out.len() / width(self.float);
        let mut both = self.places.iter().zip(parts);
        let is_fit = parts.len() == self.places.len()
            && out.len() == elements * width(self.float)
            && both.all(|(place, part)| part.len() == elements * width(place.float));
        if !is_fit {
            let detail = "the parts are not those of the tensor";
            return Err(Error::invalid_input(detail));
        }
        let sources = self.places.iter().zip(parts);
        let sources = sources.map(|(place, part)| Some((place.float?, *part)));
        match (self.float, sources.collect::<Option<Vec<_>>>()) {
            (Some(float), Some(sources)) => self.mix.apply(float, &sources, out),
            _ => parts.iter().for_each(|part| out.copy_from_slice(part)),
        }
        Ok(())
    }
}

/// The file of a base that is computed.
#[derive(Debug, Clone, Default)]
pub struct MixedBase {
    /// The bytes before the data.
    pub head: Vec<u8>,
    /// The tensors, which fill the data, in their order.
    pub tensors: Vec<MixedTensor>,
}

impl MixedBase {
    /// Returns the length of the file in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        let last = self.tensors.last();
        last.map_or(self.head.len() as u64, |tensor| tensor.range.end)
    }
}

impl Mixes {
    /// Creates the base from the mix of each tensor of the target, in the order of the
    /// records, with the counterpart in each source that the mix uses. Every mix has
    /// `sources` weights.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for more sources or different
    /// mixes than the format can store.
    pub fn new(sources: usize, of_tensors: Vec<Option<(Mix, Vec<&Counterpart>)>>) -> Result<Self> {
        let refuse =
            || Error::invalid_input("a base has 1 to 255 sources and at most 65 535 mixes");
        if !SOURCES.contains(&sources) {
            return Err(refuse());
        }
        let mut known: BTreeMap<Vec<u64>, u16> = BTreeMap::new();
        let mut mixes = Vec::new();
        let mut entries = Vec::new();
        for mixed in of_tensors {
            let Some((mix, counterparts)) = mixed else {
                entries.push(Entry::default());
                continue;
            };
            let weights = mix.weights.iter().map(|weight| weight.to_bits());
            let key = weights.chain([mix.arithmetic as u64]).collect();
            let next = u16::try_from(mixes.len() + 1).map_err(|_| refuse())?;
            let number = *known.entry(key).or_insert(next);
            if number == next {
                mixes.push(mix);
            }
            let numbers = counterparts.iter().map(|found| found.number);
            entries.push(Entry {
                mix: number,
                tensors: numbers.map(|number| number.map_or(0, |n| n + 1)).collect(),
            });
        }
        Ok(Self {
            sources,
            mixes,
            entries,
        })
    }

    /// Returns the number of sources.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.sources
    }

    /// Returns the mix of a tensor, if the base has the tensor.
    fn mix_of(&self, entry: &Entry) -> Option<&Mix> {
        self.mixes.get(usize::from(entry.mix.checked_sub(1)?))
    }

    /// Returns the number of sources, given the field of the trailer.
    pub(super) fn source_count(field: &[u8]) -> Result<usize> {
        Self::start(field).map(|(_, sources, _)| sources)
    }

    /// Reads the beginning of the field of the trailer. Returns whether it has numbers of
    /// tensors, the number of sources, and the cursor after it. The field has a digest of
    /// its own, since a damaged weight would otherwise only be noticed by the digest of a
    /// tensor.
    fn start(field: &[u8]) -> Result<(bool, usize, Cursor<'_>)> {
        let bad = |detail| Error::malformed(Rule::DeltaSeal, detail);
        let mut cursor = Cursor::new(field);
        let digest: ShortDigest = cursor.array("digest of the mixes")?;
        if short_digest([&field[digest.len()..]]) != digest {
            return Err(bad(
                "the mixes are not the ones that were packed: the delta is damaged",
            ));
        }
        let flags = cursor.u8("flags of the mixes")?;
        if flags > HAS_NUMBERS {
            return Err(bad("the mixes have unknown flags"));
        }
        let sources = usize::from(cursor.u8("number of sources")?);
        if !SOURCES.contains(&sources) {
            return Err(bad("the base has no sources"));
        }
        Ok((flags == HAS_NUMBERS, sources, cursor))
    }

    /// Reads the field of the trailer of a file with this number of records.
    pub(super) fn read(field: &[u8], record_count: usize) -> Result<Self> {
        let bad = |detail| Error::malformed(Rule::DeltaSeal, detail);
        let (has_numbers, sources, mut cursor) = Self::start(field)?;
        let count = cursor.u16("number of mixes")?;
        let mut mixes = Vec::new();
        for _ in 0..count {
            let id = cursor.u8("arithmetic of a mix")?;
            let arithmetic = Arithmetic::ALL.into_iter().find(|kind| *kind as u8 == id);
            let Some(arithmetic) = arithmetic else {
                return Err(bad("a mix has an unknown arithmetic"));
            };
            let mut weights = Vec::new();
            for _ in 0..sources {
                weights.push(f64::from_bits(cursor.u64("weight of a source")?));
            }
            let mix = Mix {
                arithmetic,
                weights,
            };
            if mix.used().next().is_none() || !mix.weights.iter().all(|w| w.is_finite()) {
                return Err(bad("the weights of a mix are not usable numbers"));
            }
            mixes.push(mix);
        }
        let mut entries = Vec::new();
        while cursor.remaining() > 0 {
            let mix = cursor.u16("number of a mix")?;
            let used = match mix.checked_sub(1).map(|mix| mixes.get(usize::from(mix))) {
                None => 0,
                Some(Some(mix)) => Mix::used(mix).count(),
                Some(None) => {
                    return Err(bad("the trailer refers to a mix that it does not have"));
                }
            };
            let mut tensors = vec![0; used];
            if has_numbers {
                for tensor in &mut tensors {
                    *tensor = cursor.u32("number of a tensor")?;
                }
            }
            entries.push(Entry { mix, tensors });
        }
        if entries.len() != record_count {
            return Err(bad("the trailer does not have one mix for each record"));
        }
        Ok(Self {
            sources,
            mixes,
            entries,
        })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut numbers = self.entries.iter().flat_map(|entry| &entry.tensors);
        let flags = u8::from(numbers.any(|number| *number > 0));
        let mut out = Vec::from([flags]);
        // Both counts have been checked when the mixes were made.
        out.push(u8::try_from(self.sources).unwrap_or(u8::MAX));
        let count = u16::try_from(self.mixes.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&count.to_le_bytes());
        for mix in &self.mixes {
            out.push(mix.arithmetic as u8);
            for weight in &mix.weights {
                out.extend_from_slice(&weight.to_bits().to_le_bytes());
            }
        }
        for entry in &self.entries {
            out.extend_from_slice(&entry.mix.to_le_bytes());
            for tensor in entry.tensors.iter().filter(|_| flags == HAS_NUMBERS) {
                out.extend_from_slice(&tensor.to_le_bytes());
            }
        }
        [&short_digest([&*out])[..], &out].concat()
    }

    /// Returns the file of the base for a target with these `tensors`, in the order of the
    /// records.
    ///
    /// # Errors
    /// [`Rule::DeltaReference`] for another number of sources,
    /// [`Rule::DeltaBaseTensor`] for a source without a tensor that is needed, and
    /// [`Rule::DeltaSeal`] for a combination of elements that cannot be combined.
    pub fn base(&self, tensors: &[HeaderTensor], sources: &[BaseHeader]) -> Result<MixedBase> {
        if sources.len() != self.sources {
            return Err(Error::malformed(
                Rule::DeltaReference,
                format!(
                    "the delta was made against {} bases together: give all of them in the same \
                     order, instead of {}",
                    self.sources,
                    sources.len()
                ),
            ));
        }
        let mut mixed: BTreeMap<&String, (&HeaderTensor, &Mix, &Entry)> = BTreeMap::new();
        for (tensor, entry) in tensors.iter().zip(&self.entries) {
            if let Some(mix) = self.mix_of(entry) {
                mixed.insert(&tensor.name, (tensor, mix, entry));
            }
        }
        let mut end = 0_u64;
        let mut places = Vec::new();
        for (tensor, ..) in mixed.values() {
            let start = end;
            // The tensors fit into the target's data, unless they share bytes there.
            end = end.saturating_add(tensor.span.end - tensor.span.start);
            places.push(HeaderTensor {
                span: start..end,
                ..(*tensor).clone()
            });
        }
        let head = safetensors::head(&BTreeMap::new(), &places)?;
        let data_start = head.len() as u64;
        let mut found = Vec::new();
        for (place, (tensor, mix, entry)) in places.iter().zip(mixed.values()) {
            let float = FloatType::from_dtype(tensor.dtype);
            if float.is_none() && !mix.is_copy() {
                let detail = "the trailer combines numbers that cannot be combined";
                return Err(Error::malformed(Rule::DeltaSeal, detail).tensor(&tensor.name));
            }
            let sources = mix.used().zip(&entry.tensors).map(|(source, other)| {
                let header = &sources[source];
                let number = match other.checked_sub(1) {
                    None => header.number(&tensor.name),
                    Some(number) => Some(number as usize),
                };
                let elements = number.and_then(|number| header.elements_of(number, tensor));
                let (range, float) = elements.ok_or_else(|| {
                    let detail = format!(
                        "base {} does not have this tensor with as many elements of a usable \
                         dtype: the bases are others, or in another order",
                        source + 1
                    );
                    Error::malformed(Rule::DeltaBaseTensor, detail).tensor(&tensor.name)
                })?;
                Ok(SourceTensor {
                    source,
                    range,
                    float,
                })
            });
            found.push(MixedTensor {
                range: data_start + place.span.start..data_start.saturating_add(place.span.end),
                float,
                mix: (*mix).clone(),
                places: sources.collect::<Result<_>>()?,
            });
        }
        Ok(MixedBase {
            head,
            tensors: found,
        })
    }
}
