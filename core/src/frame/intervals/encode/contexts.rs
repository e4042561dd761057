//! Chooses the codes of rows and columns and the tables of their sums.

use alloc::vec;
use alloc::vec::Vec;

use super::super::head::max_codes;
use super::{Numbers, PART_ELEMENTS, add, counting_elements};
use crate::engine::PackEngine;
use crate::entropy::interleaved::{
    FRACTION_BITS, Frequencies, MAX_TABLES, encode_side_stream, entropy_cost, table_cost,
    table_len_cost,
};

/// Rows and columns with fewer elements have no codes.
const MIN_LINE: usize = 32;
/// Matrices with more columns have no column codes, because each job keeps a sum per column.
const MAX_COLUMNS: usize = 1 << 17;
/// Row codes and column codes are less than this.
const CODES: u64 = 128;
/// The base-2 logarithm of the number of codes of an octave.
const CODES_OF_OCTAVE_LOG: u32 = 3;
/// The number of groups of contexts from which tables are made.
const GROUPS: u64 = 32;
/// About this many elements are used to compare the codings.
const SAMPLE_ELEMENTS: usize = 1 << 18;
/// About this many elements of each column are used to compute its mean.
const COLUMN_ELEMENTS: usize = 512;

/// The codes of rows and columns, and the tables that they lead to.
#[derive(Debug)]
pub(super) struct Contexts {
    pub row_elements: usize,
    /// The row codes and the column codes. The column codes may be empty.
    codes: [Vec<u8>; 2],
    /// The side streams of the codes.
    pub streams: [Vec<u8>; 2],
    /// The index of the table of every context.
    pub table_of: Vec<u8>,
    pub tables: Vec<Frequencies>,
    /// The bits of symbols, tables and codes, in units of `2^-FRACTION_BITS` bits.
    pub cost: u64,
}

impl Contexts {
    /// Chooses the cheapest of four codings of `symbols`, which are below `intervals`: no
    /// codes, codes of rows, of columns, and of both.
    pub fn choose<E: PackEngine>(
        engine: &E,
        numbers: Numbers,
        symbols: &[u8],
        intervals: usize,
    ) -> Option<Self> {
        let elements = numbers.len();
        let columns = numbers.row_elements;
        let rows = elements.div_ceil(columns);
        let fits = (rows + columns) as u64 <= max_codes(elements as u64);
        let has_rows = fits && columns >= MIN_LINE && columns < elements;
        let has_columns = fits && columns <= MAX_COLUMNS && rows >= MIN_LINE;
        let [rows, of_columns] = match has_rows || has_columns {
            true => means(engine, numbers, has_columns).map(|means| codes(&means)),
            false => [Vec::new(), Vec::new()],
        };
        // Any division into rows serves if there are no codes.
        let row_elements = if fits { columns } else { PART_ELEMENTS };
        let none = vec![0; elements.div_ceil(row_elements)];
        let mut candidates = vec![[none.clone(), Vec::new()]];
        if has_rows {
            candidates.push([rows.clone(), Vec::new()]);
        }
        if has_columns {
            candidates.push([none, of_columns.clone()]);
        }
        if has_rows && has_columns {
            candidates.push([rows, of_columns]);
        }
        let step = elements.div_ceil(SAMPLE_ELEMENTS);
        let made = candidates
            .into_iter()
            .map(|codes| Self::new(engine, row_elements, codes, symbols, intervals, step));
        let best = made.min_by_key(|contexts| contexts.cost)?;
        if step == 1 {
            return Some(best);
        }
        Some(Self::new(
            engine,
            row_elements,
            best.codes,
            symbols,
            intervals,
            1,
        ))
    }

    /// Makes the tables for these codes from one part in `step`.
    fn new<E: PackEngine>(
        engine: &E,
        row_elements: usize,
        codes: [Vec<u8>; 2],
        symbols: &[u8],
        intervals: usize,
        step: usize,
    ) -> Self {
        let [rows, columns] = &codes;
        let no_columns = vec![0; row_elements];
        let stored = match columns.is_empty() {
            true => &no_columns,
            false => columns,
        };
        let streams = [encode_side_stream(rows), encode_side_stream(stored)];
        let most = |codes: &[u8]| usize::from(codes.iter().copied().max().unwrap_or(0));
        let contexts = most(rows) + most(columns) + 1;
        let stored_bits = 8 * streams.iter().map(Vec::len).sum::<usize>() as u64;
        let mut made = Self {
            row_elements,
            codes,
            cost: stored_bits << FRACTION_BITS,
            streams,
            table_of: Vec::new(),
            tables: Vec::new(),
        };
        let counts = made.count(engine, symbols, [contexts, intervals], step);
        for (number, group) in (0..).zip(groups(&counts, intervals)) {
            let table = rounded(&group.counts);
            made.cost += step as u64 * table_cost(&group.counts, &table);
            made.cost += table.len_bits() << FRACTION_BITS;
            made.tables.push(table);
            made.table_of.resize(group.end, number);
        }
        made
    }

    /// Writes the `meaning` of the context of each element, from element `first` on.
    #[inline(always)]
    pub fn fill(&self, first: usize, meaning: &[u16], out: &mut [u16]) {
        let [rows, columns] = &self.codes;
        let (mut row, mut column) = (first / self.row_elements, first % self.row_elements);
        let mut left = out;
        while !left.is_empty() {
            let len = left.len().min(self.row_elements - column);
            let (now, after) = left.split_at_mut(len);
            let code = usize::from(rows[row]);
            match columns.get(column..column + len) {
                Some(columns) => {
                    for (out, &column) in now.iter_mut().zip(columns) {
                        *out = meaning[code + usize::from(column)];
                    }
                }
                None => now.fill(meaning[code]),
            }
            left = after;
            row += 1;
            column = 0;
        }
    }

    /// Returns how many elements have each context and symbol, counting one part in `step`.
    fn count<E: PackEngine>(
        &self,
        engine: &E,
        symbols: &[u8],
        [contexts, intervals]: [usize; 2],
        step: usize,
    ) -> Vec<u32> {
        let numbers: Vec<u16> = (0..).take(contexts).collect();
        let job_elements = counting_elements(symbols.len(), PART_ELEMENTS * step);
        let jobs = symbols.chunks(job_elements).enumerate().collect();
        let all = engine.map(jobs, |(number, symbols)| {
            let mut counts = vec![0u32; contexts * intervals];
            let mut found = [0; PART_ELEMENTS];
            for (part, symbols) in symbols.chunks(PART_ELEMENTS).enumerate().step_by(step) {
                let found = &mut found[..symbols.len()];
                let first = number * job_elements + part * PART_ELEMENTS;
                self.fill(first, &numbers, found);
                for (&symbol, &context) in symbols.iter().zip(&*found) {
                    counts[usize::from(context) * intervals + usize::from(symbol)] += 1;
                }
            }
            counts
        });
        let mut all = all.into_iter();
        let mut sum = all.next().unwrap_or_default();
        all.for_each(|counts| add(&mut sum, &counts));
        sum
    }
}

/// A sum of keys, and their number.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    keys: u64,
    count: u64,
}

/// Returns the mean key of every row and, if `has_columns`, of every column, in units of codes.
/// Zeros are left out; a row or column that consists of zeros has `None`.
fn means<E: PackEngine>(engine: &E, numbers: Numbers, has_columns: bool) -> [Vec<Option<u64>>; 2] {
    let columns = numbers.row_elements;
    // Most columns are long enough to know their means from some of the rows.
    let step = (numbers.len() / columns).div_ceil(COLUMN_ELEMENTS).max(1);
    let job_elements = counting_elements(numbers.len(), columns * step);
    let all = engine.map(numbers.jobs(job_elements), |range| {
        let mut of_columns = vec![Sum::default(); if has_columns { columns } else { 0 }];
        let starts = range.clone().step_by(columns).enumerate();
        let of_rows = starts.map(|(row, start)| {
            let mut keys_sum = 0;
            let mut zeros = 0;
            let row_range = start..range.end.min(start + columns);
            let len = row_range.len();
            numbers.each_keys(row_range, |at, keys| {
                keys_sum += keys.iter().map(|&key| u32::from(key)).sum::<u32>() as u64;
                // Zeros have the keys 0 and 1.
                zeros += keys.iter().map(|&key| u32::from(key < 2)).sum::<u32>() as u64;
                if has_columns && row % step == 0 {
                    for (sum, &key) in of_columns[at - start..].iter_mut().zip(keys) {
                        sum.keys += u64::from(key);
                        sum.count += u64::from(key >= 2);
                    }
                }
            });
            Sum {
                keys: keys_sum,
                count: len as u64 - zeros,
            }
        });
        (of_rows.collect::<Vec<_>>(), of_columns)
    });
    let mut rows = Vec::new();
    let mut of_columns = vec![Sum::default(); if has_columns { columns } else { 0 }];
    for (of_rows, more) in all {
        rows.extend(of_rows);
        for (sum, more) in of_columns.iter_mut().zip(more) {
            sum.keys += more.keys;
            sum.count += more.count;
        }
    }
    [rows, of_columns].map(|sums| {
        let means = sums.into_iter().map(|sum| {
            let eighths = (sum.keys << CODES_OF_OCTAVE_LOG).checked_div(sum.count)?;
            Some(eighths >> numbers.octave_log)
        });
        means.collect()
    })
}

/// Returns the codes of rows or columns with these means. Very small ones are 0.
fn codes(means: &[Option<u64>]) -> Vec<u8> {
    let known = || means.iter().flatten().copied();
    let least = known().max().unwrap_or(0).saturating_sub(CODES - 1);
    let least = known().min().unwrap_or(0).max(least);
    let codes = means.iter().map(|mean| {
        let code = mean.unwrap_or(0).saturating_sub(least);
        u8::try_from(code).unwrap_or(u8::MAX)
    });
    codes.collect()
}

/// Neighbouring contexts that share a table.
#[derive(Debug, Clone)]
struct Group {
    counts: Vec<u32>,
    /// The context after the last one.
    end: usize,
    cost: u64,
}

impl Group {
    fn new(counts: Vec<u32>, end: usize) -> Self {
        let cost = entropy_cost(&counts) + table_len_cost(&counts);
        Self { counts, end, cost }
    }

    /// Returns the union of a group and the one after it.
    fn with(&self, next: &Self) -> Self {
        let mut counts = self.counts.clone();
        add(&mut counts, &next.counts);
        Self::new(counts, next.end)
    }
}

/// Divides the contexts into groups, given the counts of `intervals` symbols for each.
fn groups(counts: &[u32], intervals: usize) -> Vec<Group> {
    let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let mut groups: Vec<Group> = Vec::new();
    let mut held = vec![0; intervals];
    let contexts = counts.chunks(intervals);
    let last = contexts.len();
    for (end, counts) in (1..).zip(contexts) {
        add(&mut held, counts);
        let elements: u64 = held.iter().map(|&count| u64::from(count)).sum();
        if elements * GROUPS >= total {
            groups.push(Group::new(
                core::mem::replace(&mut held, vec![0; intervals]),
                end,
            ));
        } else if end == last
            && let Some(before) = groups.last_mut()
        {
            *before = before.with(&Group::new(core::mem::take(&mut held), end));
        }
    }
    let mut pairs: Vec<Group> = groups
        .windows(2)
        .map(|pair| pair[0].with(&pair[1]))
        .collect();
    loop {
        let losses = pairs.iter().zip(groups.windows(2)).map(|(union, pair)| {
            union.cost.cast_signed() - (pair[0].cost + pair[1].cost).cast_signed()
        });
        let Some((least, at)) = losses.zip(0..).min() else {
            return groups;
        };
        if least >= 0 && groups.len() <= MAX_TABLES {
            return groups;
        }
        groups[at] = pairs.remove(at);
        groups.remove(at + 1);
        if at > 0 {
            pairs[at - 1] = groups[at - 1].with(&groups[at]);
        }
        if at < pairs.len() {
            pairs[at] = groups[at].with(&groups[at + 1]);
        }
    }
}

/// Returns the table for these counts. It has at least two symbols.
fn rounded(counts: &[u32]) -> Frequencies {
    let mut used = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    if let (Some((only, _)), None) = (used.next(), used.next()) {
        let mut counts = counts.to_vec();
        counts[if only > 0 { only - 1 } else { 1 }] = 1;
        return Frequencies::round(&counts);
    }
    Frequencies::round(counts)
}
