//! The tables of all contexts (8.1), which are parsed for decoding, or counted
//! and rounded for encoding.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::super::state::Divided;
use super::super::table::{Frequencies, Lookup};
use super::{BITS, SLOTS, segments};
use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

/// Length in bytes of the largest model, which has 256 rows of 256 symbols.
pub(super) const MAX_BYTES: u64 = 256 * (3 + 3 * 256);

/// The lookup tables of every context that has a row.
pub(super) type Contexts<'m> = [Option<&'m Lookup<SLOTS>>; 256];

/// A parsed model, with lookup tables of 5 KiB for every context that occurs.
#[derive(Debug)]
pub(super) struct Order1Model {
    rows: Vec<(u8, Lookup<SLOTS>)>,
    most: u32,
}

impl Order1Model {
    /// Parses rows until the end.
    pub fn parse(raw: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(raw);
        let mut seen = [false; 256];
        let mut model = Self {
            rows: Vec::new(),
            most: 0,
        };
        while cursor.remaining() > 0 {
            let context = cursor.u8("context of a rANS model").map_err(cut)?;
            if core::mem::replace(&mut seen[usize::from(context)], true) {
                return Err(bad(context, "is listed twice"));
            }
            let frequencies = read_row(&mut cursor, context)?;
            model.most = model.most.max(frequencies.most());
            model.rows.push((context, Lookup::new(&frequencies)));
        }
        Ok(model)
    }

    /// Returns the largest frequency in any row.
    pub fn most(&self) -> u32 {
        self.most
    }

    pub fn contexts(&self) -> Contexts<'_> {
        let mut contexts = [None; 256];
        for (context, lookup) in &self.rows {
            contexts[usize::from(*context)] = Some(lookup);
        }
        contexts
    }
}

fn bad(context: u8, what: &str) -> Error {
    Error::malformed(
        Rule::RansModel,
        format!("context {context} of a rANS model {what}"),
    )
}

/// Replaces an error whose offset refers to the unpacked model, where it would
/// mislead.
fn cut(_: Error) -> Error {
    Error::malformed(Rule::RansModel, "a rANS model ends inside a row")
}

fn read_row(cursor: &mut Cursor, context: u8) -> Result<Frequencies> {
    let count = cursor.u16("symbol count").map_err(cut)?;
    if !(1..=256).contains(&count) {
        return Err(bad(context, "has no symbol, or more than 256"));
    }
    let mut table = Box::new([0; 256]);
    let mut least = 0;
    let mut sum = 0;
    for _ in 0..count {
        let symbol = usize::from(cursor.u8("symbol").map_err(cut)?);
        let frequency = cursor.u16("frequency").map_err(cut)?;
        if symbol < least {
            return Err(bad(context, "has symbols out of order"));
        }
        if frequency == 0 {
            return Err(bad(context, "has a symbol of frequency zero"));
        }
        least = symbol + 1;
        sum += u32::from(frequency);
        table[symbol] = frequency;
    }
    if sum != 1 << BITS {
        return Err(bad(context, "has frequencies with a wrong sum"));
    }
    Ok(Frequencies(table))
}

/// The number of times that each symbol follows each context. The counts fit
/// because a plane has fewer than 2^32 symbols.
#[derive(Debug)]
pub(super) struct Counts(Vec<[u32; 256]>);

impl Default for Counts {
    fn default() -> Self {
        Self(vec![[0; 256]; 256])
    }
}

impl Counts {
    /// Counts the symbols of one chunk.
    pub(crate) fn of_chunk(chunk: &[u8]) -> Self {
        let mut counts = Self::default();
        for segment in segments::split(chunk) {
            let mut context = 0;
            for &symbol in segment {
                counts.0[usize::from(context)][usize::from(symbol)] += 1;
                context = symbol;
            }
        }
        counts
    }

    /// Returns the sum of both counts.
    pub fn add(mut self, other: Self) -> Self {
        for (row, more) in self.0.iter_mut().zip(other.0) {
            for (count, more) in row.iter_mut().zip(more) {
                *count += more;
            }
        }
        self
    }

    /// Rounds the counts of the contexts that occur to frequencies.
    pub fn round(&self) -> Tables {
        Tables(
            (0..=u8::MAX)
                .zip(&self.0)
                .filter(|(_, row)| row.iter().any(|&count| count > 0))
                .map(|(context, row)| (context, Frequencies::round(&row.map(u64::from), BITS)))
                .collect(),
        )
    }
}

/// The tables of an encoder, in ascending order of contexts.
#[derive(Debug)]
pub(super) struct Tables(Vec<(u8, Frequencies)>);

impl Tables {
    /// Returns the serialised model, before it is packed.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (context, frequencies) in &self.0 {
            let present = (0..=u8::MAX)
                .zip(frequencies.0.iter())
                .filter(|&(_, &frequency)| frequency > 0);
            out.push(*context);
            out.extend_from_slice(&present.clone().count().to_le_bytes()[..2]);
            for (symbol, frequency) in present {
                out.push(symbol);
                out.extend_from_slice(&frequency.to_le_bytes());
            }
        }
        out
    }

    /// Returns the codes of every pair that occurs.
    pub fn codes(&self) -> Codes {
        let mut numbers = [0; 256];
        for ((context, _), number) in self.0.iter().zip(0..=u8::MAX) {
            numbers[usize::from(*context)] = number;
        }
        let rows = self.0.iter().map(|(_, frequencies)| {
            let codes = frequencies.codes();
            codes.map(|code| Divided::new(code, BITS))
        });
        Codes {
            rows: rows.collect(),
            numbers,
        }
    }
}

/// The codes of all pairs of context and symbol that occur.
#[derive(Debug)]
pub(super) struct Codes {
    rows: Vec<[Divided; 256]>,
    /// The row index of each context.
    numbers: [u8; 256],
}

impl Codes {
    /// Returns the code of `symbol` after `context`.
    #[inline]
    pub fn of(&self, context: u8, symbol: u8) -> &Divided {
        let number = self.numbers[usize::from(context)];
        &self.rows[usize::from(number)][usize::from(symbol)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The model of the worked example (docs/formats/z4ai-frames.md 17).
    const ABRACADABRA: &[u8] = &[
        0x00, 3, 0, 0x61, 0x00, 0x08, 0x62, 0x00, 0x04, 0x72, 0x00, 0x04, 0x61, 3, 0, 0x62, 0x56,
        0x05, 0x63, 0x55, 0x05, 0x64, 0x55, 0x05, 0x62, 1, 0, 0x72, 0x00, 0x10, 0x64, 1, 0, 0x61,
        0x00, 0x10, 0x72, 1, 0, 0x61, 0x00, 0x10,
    ];

    #[test]
    fn the_worked_example_of_chapter_17() {
        let tables = Counts::of_chunk(b"abracadabra").round();
        assert_eq!(tables.write(), ABRACADABRA);
        let model = Order1Model::parse(ABRACADABRA).unwrap();
        let present: Vec<usize> = (0..256)
            .filter(|&i| model.contexts()[i].is_some())
            .collect();
        assert_eq!(present, [0x00, 0x61, 0x62, 0x64, 0x72]);
        assert_eq!(model.most(), 4096);
    }

    #[test]
    fn every_rule_of_a_row() {
        let rows: [&[u8]; 9] = [
            &[0],
            &[0, 1, 0, 5, 0],
            &[0, 0, 0],
            &[0, 1, 1],
            &[0, 1, 0, 5, 0xFF, 0x0F],
            &[0, 2, 0, 5, 0, 8, 5, 0, 8],
            &[0, 2, 0, 6, 0, 8, 5, 0, 8],
            &[0, 2, 0, 5, 0, 16, 6, 0, 0],
            &[0, 1, 0, 5, 0, 16, 0, 1, 0, 5, 0, 16],
        ];
        for row in rows {
            let error = Order1Model::parse(row).unwrap_err();
            assert_eq!(error.rule(), Some(Rule::RansModel), "{row:?}");
        }
    }
}
