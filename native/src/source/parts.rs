//! Reads ranges of one or several sources.

use std::borrow::Cow;
use std::ops::Range;
use std::ptr;

use super::Source;
use super::parallel::{self, READS_AT_ONCE};
use crate::Result;

/// Reads every range from its source and returns the bytes in the same order. Each
/// source is called once with all of its ranges, and remote sources are read at the
/// same time. Empty ranges are not read.
///
/// # Errors
/// The errors of the sources; a source that returns other numbers of bytes than
/// requested.
pub fn read_parts<'a>(wanted: &[(&'a dyn Source, Range<u64>)]) -> Result<Vec<Cow<'a, [u8]>>> {
    let mut groups: Vec<(&dyn Source, Vec<usize>)> = Vec::new();
    for (number, &(source, ref range)) in wanted.iter().enumerate() {
        if range.is_empty() {
            continue;
        }
        // Zero-sized values may share an address.
        let is_same = |group| size_of_val(source) > 0 && ptr::addr_eq(group, source);
        match groups.iter_mut().find(|(group, _)| is_same(*group)) {
            Some((_, numbers)) => numbers.push(number),
            None => groups.push((source, vec![number])),
        }
    }
    let sources = groups.iter().map(|(source, _)| source.is_remote());
    let at_once = parallel::at_once(sources, READS_AT_ONCE);
    let read = parallel::run(groups.len(), at_once, |group| {
        let (source, numbers) = &groups[group];
        let ranges: Vec<_> = numbers.iter().map(|&n| wanted[n].1.clone()).collect();
        let bytes = source.read_ranges(&ranges)?;
        check(*source, &ranges, &bytes)?;
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

/// Refuses `bytes` whose lengths differ from those of `ranges`.
fn check(source: &dyn Source, ranges: &[Range<u64>], bytes: &[Cow<'_, [u8]>]) -> Result<()> {
    let is_right = |(range, bytes): (&Range<u64>, &Cow<'_, [u8]>)| {
        range.end.checked_sub(range.start) == Some(bytes.len() as u64)
    };
    if ranges.len() == bytes.len() && ranges.iter().zip(bytes).all(is_right) {
        return Ok(());
    }
    let detail = format!(
        "{} gave other numbers of bytes than were asked for",
        source.name()
    );
    Err(zstn_core::Error::invalid_input(detail).into())
}
