//! Writes a virtual header: chooses the entries that fill the original, and the
//! tensors that are views.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::ops::Range;

use super::spans::divide;
use super::{
    EntryCodings, FILE_KEY, PREFIX, PlacedTensor, StoredType, TYPE_KEY, VIEWS_KEY, VirtualHeader,
};
use crate::dtype::Dtype;
use crate::limits::{DIMENSIONS, HEADER_LEN_BYTES, NAME_LEN_BYTES};
use crate::{Error, Result, sort};

/// Shorter tensors have no entry.
const SMALL_BYTES: u64 = 4096;

/// The factor by which [`SMALL_BYTES`] grows while the header is too long.
const GROWTH: u64 = 16;

/// The longest list of views, in bytes.
const VIEWS_LEN_BYTES: usize = 16 << 20;

/// Returns the header of [`VirtualHeader::new`].
pub(super) fn header(
    kind: &str,
    tensors: Vec<PlacedTensor>,
    is_complete: bool,
    len_bytes: u64,
) -> Result<VirtualHeader> {
    let given = tensors.len();
    let tensors = usable(tensors, len_bytes);
    let is_complete = is_complete && tensors.len() == given;
    let prefix = prefix(tensors.iter().map(|(tensor, _)| tensor.name.as_str()));
    let file = format!(
        "{{\"kind\":{},\"bytes\":{},\"complete\":{is_complete}}}",
        quoted(kind),
        quoted(&prefix)
    );
    let mut small_bytes = SMALL_BYTES;
    loop {
        let layout = Layout::new(&tensors, len_bytes, small_bytes);
        let views = layout.views_json();
        let is_last = small_bytes > len_bytes;
        if views.len() <= VIEWS_LEN_BYTES {
            let json = layout.header_json(&file, &views, &prefix);
            if json.len() as u64 <= HEADER_LEN_BYTES {
                return Ok(VirtualHeader {
                    json,
                    codings: layout.codings(),
                    kind: kind.into(),
                    tensors: tensors.len(),
                });
            }
        }
        if is_last {
            return Err(Error::limit(
                "the file has too many tensors, or is too long, for the header of a packed file",
            ));
        }
        small_bytes = small_bytes.saturating_mul(GROWTH);
    }
}

/// Returns the shortest prefix with which none of the names begins: [`PREFIX`] with any
/// number of further `@` before it.
fn prefix<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let end = PREFIX.trim_start_matches('@');
    let found = names.filter_map(|name| {
        let rest = name.trim_start_matches('@');
        rest.starts_with(end).then_some(name.len() - rest.len())
    });
    let found: BTreeSet<usize> = found.collect();
    let first = PREFIX.len() - end.len();
    let count = (first..).find(|count| !found.contains(count));
    format!("{}{end}", "@".repeat(count.unwrap_or(first)))
}

/// Returns the tensors that a header can describe, with their ranges, in the order of
/// their offsets.
fn usable(tensors: Vec<PlacedTensor>, len_bytes: u64) -> Vec<(PlacedTensor, Range<u64>)> {
    let mut names = BTreeSet::new();
    let mut repeated = BTreeSet::new();
    for tensor in &tensors {
        if !names.insert(tensor.name.clone()) {
            repeated.insert(tensor.name.clone());
        }
    }
    let with_range = tensors.into_iter().filter_map(|tensor| {
        let range = tensor.range().ok().filter(|range| range.end <= len_bytes)?;
        let is_nameable = tensor.name.len() <= NAME_LEN_BYTES
            && tensor.name != "__metadata__"
            && !repeated.contains(&tensor.name);
        (is_nameable && tensor.shape.len() <= DIMENSIONS).then_some((tensor, range))
    });
    // The longest of several tensors at one offset comes first.
    sort::sorted(with_range.collect(), |(_, range)| {
        (range.start, u64::MAX - range.end)
    })
}

/// An entry of the header.
struct Entry<'t> {
    /// The tensor whose bytes these are; `None` for an entry with the prefix.
    tensor: Option<&'t PlacedTensor>,
    /// The stored type; `None` for bytes without a structure.
    stored_type: Option<StoredType>,
    span: Range<u64>,
}

struct Layout<'t> {
    entries: Vec<Entry<'t>>,
    views: Vec<&'t PlacedTensor>,
}

/// Tensors whose ranges overlap.
struct Cluster<'t> {
    range: Range<u64>,
    members: &'t [(PlacedTensor, Range<u64>)],
}

impl<'t> Cluster<'t> {
    /// Returns the tensor whose bytes are all bytes of the cluster, in their order.
    fn owner(&self) -> Option<&'t PlacedTensor> {
        let mut members = self.members.iter();
        let owner =
            members.find(|(tensor, range)| tensor.strides.is_none() && *range == self.range);
        owner.map(|(tensor, _)| tensor)
    }

    /// Returns the dtype that all members share and that divides the cluster into
    /// elements.
    fn shared_dtype(&self) -> Option<StoredType> {
        let stored_type = self.members.first()?.0.stored_type;
        let (_, width) = stored_type.block();
        let fits = |(tensor, range): &(PlacedTensor, Range<u64>)| {
            tensor.stored_type == stored_type
                && (range.start - self.range.start).is_multiple_of(width)
        };
        let is_plain = matches!(stored_type, StoredType::Plain(_));
        (is_plain && self.members.iter().all(fits)).then_some(stored_type)
    }
}

/// Divides tensors that are in the order of their offsets into clusters. Tensors
/// without bytes are in none.
fn clusters(tensors: &[(PlacedTensor, Range<u64>)]) -> Vec<Cluster<'_>> {
    let mut clusters = Vec::new();
    let mut first = 0;
    let mut range = 0..0;
    for (number, (_, next)) in tensors.iter().enumerate() {
        if next.start < range.end {
            range.end = range.end.max(next.end);
            continue;
        }
        clusters.push(Cluster {
            range: range.clone(),
            members: &tensors[first..number],
        });
        (first, range) = (number, next.clone());
    }
    clusters.push(Cluster {
        range,
        members: &tensors[first..],
    });
    clusters.retain(|cluster| !cluster.range.is_empty());
    clusters
}

impl<'t> Layout<'t> {
    fn new(tensors: &'t [(PlacedTensor, Range<u64>)], len_bytes: u64, small_bytes: u64) -> Self {
        let mut layout = Self {
            entries: Vec::new(),
            views: Vec::new(),
        };
        let mut owned = BTreeSet::new();
        let mut gap = 0..0;
        let mut in_gap = Vec::new();
        for cluster in clusters(tensors) {
            if cluster.range.end - cluster.range.start < small_bytes {
                in_gap.push(cluster.range);
                continue;
            }
            gap.end = cluster.range.start;
            layout.add_spans(&gap, &in_gap);
            in_gap.clear();
            gap.start = cluster.range.end;
            let owner = cluster.owner();
            owned.extend(owner.map(|tensor| tensor.name.as_str()));
            layout.entries.push(Entry {
                tensor: owner,
                stored_type: match owner {
                    Some(tensor) => Some(tensor.stored_type),
                    None => cluster.shared_dtype(),
                },
                span: cluster.range,
            });
        }
        gap.end = len_bytes;
        layout.add_spans(&gap, &in_gap);
        let views = tensors.iter().map(|(tensor, _)| tensor);
        layout.views = views
            .filter(|tensor| !owned.contains(tensor.name.as_str()))
            .collect();
        layout
    }

    fn add_spans(&mut self, gap: &Range<u64>, views: &[Range<u64>]) {
        let spans = divide(gap, views).into_iter();
        self.entries.extend(spans.map(|span| Entry {
            tensor: None,
            stored_type: None,
            span,
        }));
    }

    /// Returns how the entries are coded.
    fn codings(&self) -> EntryCodings {
        let codings = self.entries.iter().filter_map(|entry| {
            let block_bytes = match entry.stored_type {
                None => 0,
                Some(StoredType::Plain(_)) => return None,
                Some(StoredType::Blocks(element)) => element.block_bytes(),
            };
            // No block has more than 255 bytes.
            Some((entry.span.start, u8::try_from(block_bytes).unwrap_or(0)))
        });
        EntryCodings::new(codings)
    }

    fn header_json(&self, file: &str, views: &str, prefix: &str) -> Vec<u8> {
        let mut json = format!("{{\"__metadata__\":{{\"{FILE_KEY}\":{}", quoted(file));
        if !self.views.is_empty() {
            let _ = write!(json, ",\"{VIEWS_KEY}\":{}", quoted(views));
        }
        json.push('}');
        for entry in &self.entries {
            let Range { start, end } = entry.span;
            let name = match entry.tensor {
                Some(tensor) => quoted(&tensor.name),
                None => quoted(&format!("{prefix}{start}")),
            };
            let (dtype, shape, block_type) = entry.described();
            let _ = write!(
                json,
                ",{name}:{{\"dtype\":\"{dtype}\",\"shape\":{},\"data_offsets\":[{start},{end}]",
                list(&shape)
            );
            if let Some(element) = block_type {
                let _ = write!(json, ",\"{TYPE_KEY}\":\"{element}\"");
            }
            json.push('}');
        }
        json.push('}');
        let mut json = json.into_bytes();
        json.resize(json.len().next_multiple_of(8), b' ');
        json
    }

    fn views_json(&self) -> String {
        let mut json = String::from("[");
        for (number, view) in self.views.iter().enumerate() {
            let separator = if number > 0 { "," } else { "" };
            let _ = write!(
                json,
                "{separator}[{},\"{}\",{},{}",
                quoted(&view.name),
                view.stored_type.name(),
                list(&view.shape),
                view.offset_bytes
            );
            if let Some(strides) = &view.strides {
                let _ = write!(json, ",{}", list(strides));
            }
            json.push(']');
        }
        json.push(']');
        json
    }
}

impl Entry<'_> {
    /// Returns the dtype and the shape in the header, and the name of the block
    /// type.
    fn described(&self) -> (Dtype, Vec<u64>, Option<&'static str>) {
        let len_bytes = self.span.end - self.span.start;
        let shape = |width: u64| match self.tensor {
            Some(tensor) => tensor.shape.clone(),
            None => [len_bytes / width].into(),
        };
        match self.stored_type {
            None => (Dtype::U8, shape(1), None),
            Some(StoredType::Plain(dtype)) => (dtype, shape(dtype.bits() / 8), None),
            Some(StoredType::Blocks(element)) => {
                let mut shape = shape(1);
                if let Some(row) = shape.last_mut() {
                    *row = *row / element.block_elements() * element.block_bytes();
                }
                (Dtype::U8, shape, Some(element.name()))
            }
        }
    }
}

/// Returns numbers as a JSON list.
fn list(numbers: &[u64]) -> String {
    let mut json = String::from("[");
    for (number, value) in numbers.iter().enumerate() {
        let separator = if number > 0 { "," } else { "" };
        let _ = write!(json, "{separator}{value}");
    }
    json.push(']');
    json
}

/// Returns a text as JSON.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}
