//! Plans of the records of deltas, whose tensors depend on tensors of the base.

use alloc::format;
use core::ops::Range;

use super::segments::{Budget, Stop, number};
use super::{
    DevicePlan, DifferenceBlock, DifferenceTable, PlacedFrame, Placement, PlannedDifference,
    PlannedDigest, PlannedXor, Reason, State, source_of,
};
use crate::bytes::{index, part};
use crate::engine::Engine;
use crate::frame::difference::Difference;
use crate::{Error, Result, Rule};

impl DevicePlan {
    /// Adds a tensor whose frame is a `ZXD1` difference. The output has to contain the
    /// tensor of the base when the plan is decoded; the plan includes the digest of these
    /// bytes. See [`DevicePlan::add`] for the order of outputs.
    ///
    /// # Errors
    /// The errors of [`DevicePlan::add`]; a block of the frame that does not match its
    /// checksum. An error leaves the plan unchanged.
    pub fn add_difference(&mut self, placed: &PlacedFrame) -> Result<Placement> {
        self.add_with(placed, |plan| {
            let difference = Difference::parse(placed.bytes)?;
            let (len_bytes, expected) = (
                difference.len_bytes(),
                placed.output.end - placed.output.start,
            );
            if len_bytes != expected {
                let detail = format!(
                    "the difference is one of {len_bytes} bytes, the tensor has {expected}"
                );
                return Err(Error::malformed(Rule::ZstnDecodedLength, detail).into());
            }
            plan.add_blocks(placed, &difference)
        })
    }

    /// Adds a tensor whose frame decodes to its exclusive or with the base's tensor, which
    /// the output has to contain when the plan is decoded.
    ///
    /// # Errors
    /// The errors of [`DevicePlan::add`].
    pub fn add_xor<E: Engine>(&mut self, engine: &E, placed: &PlacedFrame) -> Result<Placement> {
        self.add_with(placed, |plan| {
            plan.add_frame(engine, placed)?;
            plan.xors.push(PlannedXor {
                output: placed.output.start,
                len: placed.output.end - placed.output.start,
            });
            Ok(())
        })
    }

    /// Adds the comparison of bytes of the output, as they are after decoding, with the
    /// first 16 bytes of their BLAKE3 digest. The bytes are a tensor that was added last, or
    /// one that follows it and that the output contains already.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind) if the range is invalid.
    pub fn add_digest(&mut self, output: Range<u64>, digest: [u8; 16]) -> Result<()> {
        if output.start > output.end {
            return Err(Error::invalid_input("a range of a digest is invalid"));
        }
        self.output_end = self.output_end.max(output.end);
        self.push_digest(output, digest, State::Decoded)
    }

    fn push_digest(&mut self, output: Range<u64>, expected: [u8; 16], state: State) -> Result<()> {
        number(self.digests.len())?;
        self.digests.push(PlannedDigest {
            output: output.start,
            len: output.end - output.start,
            expected,
            state: state as u32,
            reserved: 0,
        });
        Ok(())
    }

    fn add_blocks(&mut self, placed: &PlacedFrame, difference: &Difference) -> Result<(), Stop> {
        let outline = difference.outline().ok_or(Stop::Cpu(Reason::LowRank))?;
        let mut budget = Budget::of(placed.bytes);
        budget.spend::<PlannedDifference>()?;
        budget.spend::<PlannedDigest>()?;
        budget.spend_all::<u8>(outline.groups())?;
        budget.spend_all::<DifferenceTable>(outline.tables().len() as u64)?;
        budget.spend_all::<DifferenceBlock>(outline.block_count() as u64)?;
        let mut contexts = [0; PlannedDifference::CONTEXTS];
        for (context, choice) in contexts.iter_mut().zip(outline.choices()) {
            *context = choice;
        }
        let tensor = number(self.differences.len())?;
        let element = outline.element();
        self.differences.push(PlannedDifference {
            output: placed.output.start,
            elements: outline.elements(),
            group_elements: outline.group_elements(),
            first_code: self.difference_codes.len() as u64,
            dtype: element as u32,
            item_bytes: number(element.len_bytes())?,
            states: number(outline.states())?,
            block_elements: outline.block_elements(),
            first_table: number(self.difference_tables.len())?,
            tables: number(outline.tables().len())?,
            means: outline.means().copied().unwrap_or([0; 64]),
            contexts,
        });
        self.difference_codes.extend(outline.codes()?);
        for table in outline.tables() {
            let mut frequencies = [0; DifferenceTable::SYMBOLS];
            for (symbol, frequency) in table.iter() {
                if let Some(place) = frequencies.get_mut(usize::from(symbol)) {
                    *place = frequency;
                }
            }
            self.difference_tables.push(DifferenceTable { frequencies });
        }
        number(self.difference_tables.len())?;
        for (at, block) in outline.blocks().enumerate() {
            let (rans, raw) = block?;
            number(self.difference_blocks.len())?;
            self.difference_blocks.push(DifferenceBlock {
                rans: source_of(placed, part(placed.bytes, rans.clone()))?,
                rans_len: number(index(rans.end - rans.start))?,
                raw_len: number(index(raw.end - raw.start))?,
                difference: tensor,
                number: number(at)?,
            });
        }
        let digest = difference.base_digest();
        self.push_digest(placed.output.clone(), digest, State::Base)?;
        Ok(())
    }
}
