//! Plans of the records of deltas, whose tensors depend on tensors of the base.

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use zerocopy::IntoBytes as _;

use super::segments::{Budget, Stop, number};
use super::{
    DevicePlan, DifferenceBlock, DifferenceTable, PlacedFrame, Placement, PlannedDifference,
    PlannedDigest, PlannedXor, Reason, source_of,
};
use crate::bytes::{index, part};
use crate::engine::Engine;
use crate::frame::difference::{CONTEXTS, Difference};
use crate::{Error, Result, Rule};

/// The lists of a plan that only deltas need.
#[derive(Debug, Clone, Default)]
pub(super) struct Lists {
    differences: Vec<PlannedDifference>,
    codes: Vec<u8>,
    tables: Vec<DifferenceTable>,
    blocks: Vec<DifferenceBlock>,
    digests: Vec<PlannedDigest>,
    xors: Vec<PlannedXor>,
}

impl Lists {
    pub(super) fn lens(&self) -> [usize; 6] {
        [
            self.differences.len(),
            self.codes.len(),
            self.tables.len(),
            self.blocks.len(),
            self.digests.len(),
            self.xors.len(),
        ]
    }

    pub(super) fn truncate(&mut self, lens: [usize; 6]) {
        let [differences, codes, tables, blocks, digests, xors] = lens;
        self.differences.truncate(differences);
        self.codes.truncate(codes);
        self.tables.truncate(tables);
        self.blocks.truncate(blocks);
        self.digests.truncate(digests);
        self.xors.truncate(xors);
    }

    /// Returns the bytes of the lists that are copied to a device.
    pub(super) fn bytes(&self) -> [&[u8]; 5] {
        [
            self.differences.as_bytes(),
            &self.codes,
            self.tables.as_bytes(),
            self.blocks.as_bytes(),
            self.digests.as_bytes(),
        ]
    }
}

impl DevicePlan {
    /// Returns the tensors that are decoded from their bases.
    #[must_use]
    pub fn differences(&self) -> &[PlannedDifference] {
        &self.of_deltas.differences
    }

    /// Returns the codes of the groups of all differences (docs/formats/zxd1.md 6).
    #[must_use]
    pub fn difference_codes(&self) -> &[u8] {
        &self.of_deltas.codes
    }

    /// Returns the tables of all differences.
    #[must_use]
    pub fn difference_tables(&self) -> &[DifferenceTable] {
        &self.of_deltas.tables
    }

    /// Returns the blocks of all differences.
    #[must_use]
    pub fn difference_blocks(&self) -> &[DifferenceBlock] {
        &self.of_deltas.blocks
    }

    /// Returns the bytes of the output that a device has to compare with digests.
    #[must_use]
    pub fn digests(&self) -> &[PlannedDigest] {
        &self.of_deltas.digests
    }

    /// Returns the ranges of the output that are XORed with the base's tensor.
    #[must_use]
    pub fn xors(&self) -> &[PlannedXor] {
        &self.of_deltas.xors
    }

    /// Adds a tensor whose frame is a `ZXD1` difference. The output has to contain the
    /// tensor of the base when the plan is decoded. The digest of the base in the frame is not
    /// compared; the caller adds the digest of the restored tensor
    /// ([`DevicePlan::add_digest`]). See [`DevicePlan::add`] for the order of outputs.
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
    /// the output has to contain when the plan is decoded. The caller adds the digest of the
    /// restored tensor ([`DevicePlan::add_digest`]).
    ///
    /// # Errors
    /// The errors of [`DevicePlan::add`].
    pub fn add_xor<E: Engine>(&mut self, engine: &E, placed: &PlacedFrame) -> Result<Placement> {
        self.add_with(placed, |plan| {
            plan.add_frame(engine, placed)?;
            plan.of_deltas.xors.push(PlannedXor {
                output: placed.output.start,
                len: placed.output.end - placed.output.start,
            });
            Ok(())
        })
    }

    /// Adds the comparison of decoded bytes of the output with the first 16 bytes of their
    /// BLAKE3 digest. The bytes are the tensor that was added last, or bytes that follow it
    /// and that the output contains already.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind) if the range is invalid, or ends before
    /// the tensor that was added last.
    pub fn add_digest(&mut self, output: Range<u64>, digest: [u8; 16]) -> Result<()> {
        if output.start > output.end || output.end < self.output_end {
            return Err(Error::invalid_input("a range of a digest is invalid"));
        }
        number(self.of_deltas.digests.len())?;
        self.output_end = output.end;
        self.of_deltas.digests.push(PlannedDigest {
            output: output.start,
            len: output.end - output.start,
            expected: digest,
        });
        Ok(())
    }

    fn add_blocks(&mut self, placed: &PlacedFrame, difference: &Difference) -> Result<(), Stop> {
        let head = difference.head();
        if head.low_rank.is_some() {
            return Err(Stop::Cpu(Reason::LowRank));
        }
        let mut budget = Budget::of(placed.bytes);
        budget.spend::<PlannedDifference>()?;
        budget.spend_all::<u8>(head.elements.div_ceil(head.group_elements))?;
        budget.spend_all::<DifferenceTable>(head.tables.len() as u64)?;
        budget.spend_all::<DifferenceBlock>(head.blocks.len() as u64)?;
        let mut contexts = [0; PlannedDifference::CONTEXTS];
        for (context, choice) in contexts.iter_mut().take(CONTEXTS).enumerate() {
            *choice = head.choice(context);
        }
        let tensor = number(self.of_deltas.differences.len())?;
        self.of_deltas.differences.push(PlannedDifference {
            output: placed.output.start,
            elements: head.elements,
            group_elements: head.group_elements,
            first_code: self.of_deltas.codes.len() as u64,
            dtype: head.element as u32,
            item_bytes: number(head.element.len_bytes())?,
            states: number(head.states)?,
            block_elements: head.block_elements,
            first_table: number(self.of_deltas.tables.len())?,
            tables: number(head.tables.len())?,
            means: head.means.as_deref().copied().unwrap_or([0; 64]),
            contexts,
        });
        self.of_deltas.codes.extend(head.codes.decode()?);
        for table in &head.tables {
            let mut frequencies = [0; DifferenceTable::SYMBOLS];
            for (symbol, frequency) in table.iter() {
                if let Some(place) = frequencies.get_mut(usize::from(symbol)) {
                    *place = frequency;
                }
            }
            self.of_deltas.tables.push(DifferenceTable { frequencies });
        }
        number(self.of_deltas.tables.len())?;
        for (at, block) in difference.checked_blocks().enumerate() {
            let [rans, raw] = block?;
            number(self.of_deltas.blocks.len())?;
            self.of_deltas.blocks.push(DifferenceBlock {
                rans: source_of(placed, part(placed.bytes, rans.clone()))?,
                rans_len: number(index(rans.end - rans.start))?,
                raw_len: number(index(raw.end - raw.start))?,
                difference: tensor,
                number: number(at)?,
            });
        }
        Ok(())
    }
}
