//! Chooses the coding of each context: its shift, and one of at most 16 tables.

use alloc::vec;
use alloc::vec::Vec;

use super::counts::{Counts, SymbolCounts};
use crate::entropy::interleaved::{
    FRACTION_BITS, Frequencies, MAX_STATES, MAX_TABLES, MIN_STATES, SLOT_BITS, entropy_cost,
    table_cost,
};
use crate::frame::difference::head::Coding;
use crate::frame::difference::token::{MAX_SHIFT, SYMBOLS};

/// Every pair of clusters is considered for merging once there are at most this
/// many. Until then, only neighbours are merged.
const MAX_COMPARED: usize = 48;
/// More states than the minimum are used if they cost at most 1/n of a block,
/// because they make decoding faster.
const STATES_SHARE: u64 = 500;

/// The coding of all contexts.
#[derive(Debug)]
pub(super) struct Model {
    pub first_context: u8,
    /// The codings of consecutive contexts, starting with `first_context`.
    pub codings: Vec<Coding>,
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

    /// Returns the union of the two, with an empty list of contexts, which the
    /// caller sets if it keeps the union.
    fn merged(&self, other: &Self) -> Self {
        let counts = core::array::from_fn(|i| self.counts[i].saturating_add(other.counts[i]));
        Self::new(counts, Vec::new())
    }
}

/// Estimates the length of a table for these counts.
fn table_len_cost(counts: &[u32; SYMBOLS]) -> u64 {
    let total: u64 = counts.iter().map(|&n| u64::from(n)).sum();
    let first = counts.iter().position(|&n| n > 0).unwrap_or(0);
    let last = counts.iter().rposition(|&n| n > 0).unwrap_or(first);
    let bits = counts[first..=last].iter().map(|&n| {
        let frequency = (u64::from(n) << SLOT_BITS) / total.max(1);
        4 + u64::from(frequency.max(1).ilog2())
    });
    (16 + bits.sum::<u64>()) << FRACTION_BITS
}

impl Model {
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
        let mut codings = vec![Coding::default(); last - first + 1];
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
        let block_bytes = (self.cost >> FRACTION_BITS) / 8 / blocks.max(1) as u64;
        let is_worth = |states: &usize| {
            let more_bytes = 4 * (states - MIN_STATES) as u64;
            more_bytes * STATES_SHARE <= block_bytes
        };
        let counts = [MAX_STATES, MAX_STATES / 2];
        counts.into_iter().find(is_worth).unwrap_or(MIN_STATES)
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
