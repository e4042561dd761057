//! Reads ranges of one or several sources.

use std::borrow::Cow;
use std::ops::Range;
use std::ptr;

use super::Source;
use super::parallel::{self, READS_AT_ONCE};
use crate::Result;

/// A range of a source to read.
pub struct Wanted<'a> {
    pub source: &'a dyn Source,
    pub range: Range<u64>,
    /// True if the caller compares all bytes of the range with checksums, as
    /// [`Source::read_compared`] requires.
    pub is_compared: bool,
}

/// Reads every range from its source like [`read_wanted`]; the bytes are not compared
/// with checksums.
pub fn read_parts<'a>(wanted: &[(&'a dyn Source, Range<u64>)]) -> Result<Vec<Cow<'a, [u8]>>> {
    let wanted = wanted.iter().map(|(source, range)| Wanted {
        source: *source,
        range: range.clone(),
        is_compared: false,
    });
    read_wanted(&wanted.collect::<Vec<_>>())
}

/// Reads every range from its source and returns the bytes in the same order. Each
/// source is called once for all ranges that are compared and once for all others, and
/// remote sources are read at the same time. Empty ranges are not read.
///
/// # Errors
/// The errors of the sources; a source that returns other numbers of bytes than
/// requested.
pub fn read_wanted<'a>(wanted: &[Wanted<'a>]) -> Result<Vec<Cow<'a, [u8]>>> {
    let mut groups: Vec<(&Wanted<'a>, Vec<usize>)> = Vec::new();
    for (number, one) in wanted.iter().enumerate() {
        if one.range.is_empty() {
            continue;
        }
        // Zero-sized values may share an address.
        let is_same = |group: &Wanted| {
            size_of_val(one.source) > 0
                && ptr::addr_eq(group.source, one.source)
                && group.is_compared == one.is_compared
        };
        match groups.iter_mut().find(|(group, _)| is_same(group)) {
            Some((_, numbers)) => numbers.push(number),
            None => groups.push((one, vec![number])),
        }
    }
    let sources = groups.iter().map(|(group, _)| group.source.is_remote());
    let at_once = parallel::at_once(sources, READS_AT_ONCE);
    let read = parallel::run(groups.len(), at_once, |group| {
        let (group, numbers) = &groups[group];
        let ranges: Vec<_> = numbers.iter().map(|&n| wanted[n].range.clone()).collect();
        let bytes = match group.is_compared {
            true => group.source.read_compared(&ranges),
            false => group.source.read_ranges(&ranges),
        }?;
        check_lens(group.source.name(), &ranges, &bytes)?;
        Ok(bytes)
    })?;
    let mut parts = vec![Cow::Borrowed(&[][..]); wanted.len()];
    for ((_, numbers), bytes) in groups.iter().zip(read) {
        for (&number, bytes) in numbers.iter().zip(bytes) {
            parts[number] = bytes;
        }
    }
    Ok(parts)
}

/// Refuses `bytes`, which the source `name` returned for `ranges`, unless they have the
/// lengths of these ranges.
pub(crate) fn check_lens(
    name: &str,
    ranges: &[Range<u64>],
    bytes: &[impl AsRef<[u8]>],
) -> Result<()> {
    let mut both = ranges.iter().zip(bytes);
    let are_right = both.all(|(range, bytes)| {
        range.end.checked_sub(range.start) == Some(bytes.as_ref().len() as u64)
    });
    if ranges.len() == bytes.len() && are_right {
        return Ok(());
    }
    let detail = format!("{name} gave other numbers of bytes than were requested");
    Err(zstn_core::Error::invalid_input(detail).into())
}
