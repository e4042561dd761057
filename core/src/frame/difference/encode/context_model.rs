//! Chooses the coding of each context: its shift, and one of at most 16 tables.
//!
//! The values of each context are counted in classes that are fine enough to
//! derive the symbol counts for any shift.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::groups::Groups;
use super::{Tensors, write_values};
use crate::engine::Engine;
use crate::entropy::interleaved::{
    FRACTION_BITS, Frequencies, MAX_TABLES, entropy_cost, states, table_cost, table_len_cost,
};
use crate::frame::difference::context::{BY_MANTISSA, CONTEXTS, ContextMap};
use crate::frame::difference::float_format::{Float, Word as _};
use crate::frame::difference::head::{ContextCoding, Means};
use crate::frame::difference::token::{MAX_SHIFT, SYMBOLS, extra_bits, symbol};

/// Every pair of clusters is considered for merging once there are at most this
/// many. Until then, only neighbours are merged.
const MAX_COMPARED: usize = 48;

/// The coding of all contexts.
#[derive(Debug)]
pub(super) struct ContextModel {
    pub first_context: u8,
    /// The codings of consecutive contexts, starting with `first_context`.
    pub codings: Vec<ContextCoding>,
    pub tables: Vec<Frequencies>,
    /// The cost of the frame, in units of `2^-FRACTION_BITS` bits, without the
    /// codes of groups and the fixed fields.
    pub cost: u64,
}

/// Contexts that share one table.
#[derive(Debug, Clone)]
struct Cluster {
    counts: [u32; SYMBOLS],
    cost: u64,
    contexts: Vec<usize>,
}

impl Cluster {
    fn new(counts: [u32; SYMBOLS], contexts: Vec<usize>) -> Self {
        let cost = entropy_cost(&counts) + table_len_cost(&counts);
        Self {
            counts,
            cost,
            contexts,
        }
    }

    /// Returns the union of both clusters, with an empty list of contexts,
    /// which the caller sets if it keeps the union.
    fn merged(&self, other: &Self) -> Self {
        let counts = core::array::from_fn(|i| self.counts[i].saturating_add(other.counts[i]));
        Self::new(counts, Vec::new())
    }
}

impl ContextModel {
    /// Chooses shifts and tables for these counts.
    pub fn new(counts: &Counts) -> Self {
        let mut raw_bits = 0;
        let mut shifts = Vec::new();
        let mut clusters = Vec::new();
        for context in counts.contexts() {
            let (shift, symbols) = best_shift(counts, context);
            raw_bits += symbols.raw_bits;
            shifts.push((context, shift));
            clusters.push(Cluster::new(symbols.counts, vec![context]));
        }
        merge_neighbours(&mut clusters);
        merge_closest(&mut clusters);
        let first = shifts.first().map_or(0, |(context, _)| *context);
        let last = shifts.last().map_or(0, |(context, _)| *context);
        let mut codings = vec![ContextCoding::default(); last - first + 1];
        for (context, shift) in shifts {
            codings[context - first].shift = shift;
        }
        let mut tables = Vec::new();
        let mut cost = (raw_bits + 9 * codings.len() as u64) << FRACTION_BITS;
        for (number, cluster) in (0..).zip(&clusters) {
            let table = Frequencies::round(&cluster.counts);
            cost += table_cost(&cluster.counts, &table) + (table.len_bits() << FRACTION_BITS);
            tables.push(table);
            for context in &cluster.contexts {
                codings[context - first].table = number;
            }
        }
        Self {
            first_context: u8::try_from(first).unwrap_or(0),
            codings,
            tables,
            cost,
        }
    }

    /// Returns the number of states for a frame of `blocks` blocks: the largest
    /// number whose cost is small.
    pub fn states(&self, blocks: usize) -> usize {
        states((self.cost >> FRACTION_BITS) / 8 / blocks.max(1) as u64)
    }
}

/// Returns the cheapest shift for the values of a context.
fn best_shift(counts: &Counts, context: usize) -> (u8, SymbolCounts) {
    // If the symbols of most values had fewer than two bits, they would not
    // represent the distribution; more than six bits gain nothing.
    let bits = counts.mean_bits(context);
    let least = bits.saturating_sub(6);
    let most = bits.saturating_sub(2).min(MAX_SHIFT.into());
    let mut best: Option<(u64, u8, SymbolCounts)> = None;
    for shift in least..=most.max(least) {
        let Ok(shift) = u8::try_from(shift.min(MAX_SHIFT.into())) else {
            continue;
        };
        let symbols = counts.symbols(context, shift.into());
        let cost = entropy_cost(&symbols.counts)
            + table_len_cost(&symbols.counts)
            + (symbols.raw_bits << FRACTION_BITS);
        if best.as_ref().is_none_or(|(least, _, _)| cost < *least) {
            best = Some((cost, shift, symbols));
        }
    }
    let (_, shift, symbols) = best.expect("one shift at least");
    (shift, symbols)
}

/// Merges neighbours until there are few enough clusters to compare all pairs.
fn merge_neighbours(clusters: &mut Vec<Cluster>) {
    while clusters.len() > MAX_COMPARED {
        let pairs = clusters.windows(2).enumerate();
        let losses = pairs.map(|(i, pair)| {
            let merged = pair[0].merged(&pair[1]).cost;
            (
                merged.cast_signed() - (pair[0].cost + pair[1].cost).cast_signed(),
                i,
            )
        });
        let Some((_, i)) = losses.min() else { return };
        merge(clusters, i, i + 1);
    }
}

/// Merges the pair with the least loss, as long as there are too many clusters
/// or a merger reduces the total cost including tables.
fn merge_closest(clusters: &mut Vec<Cluster>) {
    let loss =
        |a: &Cluster, b: &Cluster| a.merged(b).cost.cast_signed() - (a.cost + b.cost).cast_signed();
    // Row i has the losses from merging cluster i with each earlier one.
    let mut losses: Vec<Vec<i64>> = Vec::new();
    for (i, cluster) in clusters.iter().enumerate() {
        losses.push(
            clusters[..i]
                .iter()
                .map(|other| loss(cluster, other))
                .collect(),
        );
    }
    loop {
        let all = losses.iter().enumerate();
        let all = all.flat_map(|(i, row)| row.iter().enumerate().map(move |(j, &l)| (l, j, i)));
        let Some((least, a, b)) = all.min() else {
            return;
        };
        if least >= 0 && clusters.len() <= MAX_TABLES {
            return;
        }
        merge(clusters, a, b);
        losses.remove(b);
        for row in losses.iter_mut().skip(b) {
            row.remove(b);
        }
        for i in 0..clusters.len() {
            if i != a {
                let loss = loss(&clusters[a], &clusters[i]);
                losses[a.max(i)][a.min(i)] = loss;
            }
        }
    }
}

/// Merges cluster `b` into cluster `a`, which precedes it.
fn merge(clusters: &mut Vec<Cluster>, a: usize, b: usize) {
    let other = clusters.remove(b);
    let mut merged = clusters[a].merged(&other);
    merged.contexts = core::mem::take(&mut clusters[a].contexts);
    merged.contexts.extend(other.contexts);
    clusters[a] = merged;
}

/// Number of classes: one for each value below 32, and 16 for each larger power
/// of two.
const CLASSES: usize = 32 + 16 * 27;

/// Number of elements that are processed together.
const PART_ELEMENTS: usize = 2048;
/// The least number of elements of a job, and the largest number of jobs. The
/// limit exists because every job has its own counts.
const JOB_ELEMENTS: usize = 1 << 18;
const MAX_JOBS: usize = 32;

/// The number of values of each class in each context.
#[derive(Debug)]
pub(super) struct Counts(Vec<u32>);

/// The symbols of the values of a context for a given shift.
#[derive(Debug, Clone)]
pub(super) struct SymbolCounts {
    pub counts: [u32; SYMBOLS],
    /// Total number of raw bits.
    pub raw_bits: u64,
}

impl Counts {
    /// Counts the values of all elements.
    pub fn new<F: Float, E: Engine>(
        engine: &E,
        tensors: Tensors,
        groups: &Groups,
        means: Option<&Means>,
    ) -> Self {
        let all = tensors.current.len() / size_of::<F::Word>();
        let job_elements = JOB_ELEMENTS.max(all.div_ceil(MAX_JOBS));
        let map = ContextMap::new(|context| u16::try_from(context).unwrap_or(0));
        let jobs: Vec<Range<usize>> = (0..all)
            .step_by(job_elements)
            .map(|start| start..all.min(start + job_elements))
            .collect();
        let counts = engine.map(jobs, |job| {
            let mut counts = [(); 2].map(|()| Self(vec![0; CONTEXTS * CLASSES]));
            for start in job.clone().step_by(PART_ELEMENTS) {
                let part = start..job.end.min(start + PART_ELEMENTS);
                Self::add::<F>(&mut counts, &map, tensors, groups, means, part);
            }
            let [mut counts, more] = counts;
            counts.add_all(&more);
            counts
        });
        let mut counts = counts.into_iter();
        let mut sum = counts.next().unwrap_or(Self(Vec::new()));
        for more in counts {
            sum.add_all(&more);
        }
        sum
    }

    fn add_all(&mut self, more: &Self) {
        for (count, more) in self.0.iter_mut().zip(&more.0) {
            *count = count.saturating_add(*more);
        }
    }

    /// Counts the values of a part. Elements at even and at odd positions have
    /// separate counts, because incrementing the same count twice in a row
    /// would stall, and neighbouring values are often equal.
    fn add<F: Float>(
        [even, odd]: &mut [Self; 2],
        map: &ContextMap,
        tensors: Tensors,
        groups: &Groups,
        means: Option<&Means>,
        part: Range<usize>,
    ) {
        let width = size_of::<F::Word>();
        let bytes = part.start * width..part.end * width;
        let (current, predicted) = (&tensors.current[bytes.clone()], &tensors.predicted[bytes]);
        let mut contexts = [0; PART_ELEMENTS];
        let mut values = [F::Word::default(); PART_ELEMENTS];
        let len = part.len();
        for (code, range) in groups.within(part) {
            let bytes = range.start * width..range.end * width;
            let (current, predicted) = (&current[bytes.clone()], &predicted[bytes]);
            map.fill::<F>(code, predicted, &mut contexts[range.clone()]);
            let means = means.filter(|_| code == BY_MANTISSA);
            write_values::<F>(current, predicted, means, &mut values[range]);
        }
        let place =
            |value: F::Word, context: u16| usize::from(context) * CLASSES + class(value.to_u32());
        let (pairs, rest) = values[..len].as_chunks::<2>();
        let (context_pairs, context_rest) = contexts[..len].as_chunks::<2>();
        for (values, contexts) in pairs.iter().zip(context_pairs) {
            even.0[place(values[0], contexts[0])] += 1;
            odd.0[place(values[1], contexts[1])] += 1;
        }
        for (value, context) in rest.iter().zip(context_rest) {
            even.0[place(*value, *context)] += 1;
        }
    }

    /// Returns the contexts that occur.
    pub fn contexts(&self) -> impl Iterator<Item = usize> + '_ {
        let counts = self.0.chunks(CLASSES).enumerate();
        counts.filter_map(|(context, counts)| counts.iter().any(|&n| n > 0).then_some(context))
    }

    /// Returns the mean number of significant bits of the values in a context,
    /// rounded down.
    pub(crate) fn mean_bits(&self, context: usize) -> u64 {
        let (mut bits, mut total) = (0, 0);
        for (class, count) in self.classes(context) {
            bits += u64::from(count) * u64::from(top_bits(class).2);
            total += u64::from(count);
        }
        bits / total.max(1)
    }

    /// Counts the symbols and the raw bits that code the values of a context if
    /// their shift is `shift`.
    pub fn symbols(&self, context: usize, shift: u32) -> SymbolCounts {
        let mut counts = [0u32; SYMBOLS];
        let mut raw_bits = 0;
        for (class, count) in self.classes(context) {
            let (top, below, _) = top_bits(class);
            // All values of a class have the same symbol.
            let value = match shift.checked_sub(below) {
                Some(more) => top >> more,
                None => top << (below - shift),
            };
            let symbol = symbol(value);
            let own = &mut counts[usize::from(symbol)];
            *own = own.saturating_add(count);
            raw_bits += u64::from(count) * u64::from(extra_bits(symbol) + shift);
        }
        SymbolCounts { counts, raw_bits }
    }

    fn classes(&self, context: usize) -> impl Iterator<Item = (usize, u32)> + '_ {
        let counts = &self.0[context * CLASSES..][..CLASSES];
        let counts = counts.iter().copied().enumerate();
        counts.filter(|(_, count)| *count > 0)
    }
}

#[inline(always)]
fn class(value: u32) -> usize {
    let below = (value | 16).ilog2() - 4;
    (16 * below + (value >> below)) as usize
}

/// Returns the top five bits of the values of a class, the number of bits below
/// them, and the total number of bits.
fn top_bits(class: usize) -> (u32, u32, u32) {
    let class = u32::try_from(class).unwrap_or(0);
    if class < 32 {
        return (class, 0, class.checked_ilog2().map_or(0, |log| log + 1));
    }
    let log = (class + 48) / 16;
    (16 + (class + 48) % 16, log - 4, log + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_dense_and_keep_five_bits() {
        for value in [0, 1, 31, 32, 33, 34, 63, 64, 127, 128, 1 << 16, u32::MAX] {
            let class = class(value);
            assert!(class < CLASSES, "{value}");
            let (top, below, bits) = top_bits(class);
            assert_eq!(value >> below, top, "{value}");
            assert_eq!(bits, u32::BITS - value.leading_zeros(), "{value}");
        }
        assert_eq!(
            (class(31), class(32), class(33), class(34)),
            (31, 32, 32, 33)
        );
        assert_eq!(class(u32::MAX), CLASSES - 1);
    }
}
