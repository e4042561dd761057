//! Plans for decoding the records of a delta on a device.

use core::ops::Range;

use super::{FormatContents, StoredTensor};
use crate::container::model_delta::RecordKind;
use crate::engine::Engine;
use crate::frame::Edition;
use crate::frame::delta::Delta;
use crate::frame::plan::{DevicePlan, PlacedFrame, Placement, Reason};
use crate::{Error, Result, Rule};

impl FormatContents {
    /// Returns whether a plan may contain tensor `number`. A device does not compare the
    /// digests of bases that records contain, so a record that depends on the base is only
    /// planned if the trailer has the digest of the restored tensor. Records that refer to
    /// other bytes of the base (docs/formats/zstn-delta.md 7) are not planned.
    pub(in crate::catalog) fn may_be_planned(&self, number: usize) -> bool {
        let record = self.records.get(number);
        self.source(number).is_none()
            && record
                .is_some_and(|(record, info)| record.kind == RecordKind::Full || info.is_some())
    }

    /// Adds a tensor to a plan; see [`FileCatalog::add_to_plan`](super::FileCatalog).
    pub(in crate::catalog) fn add_to_plan<E: Engine>(
        &self,
        engine: &E,
        stored: StoredTensor,
        source: u64,
        output: Range<u64>,
        plan: &mut DevicePlan,
    ) -> Result<Placement> {
        if !self.may_be_planned(stored.number) {
            return Ok(Placement::Cpu(Reason::Base));
        }
        let (record, info) = &self.records[stored.number];
        let bytes = self.checked_payload(stored)?;
        let placed = PlacedFrame {
            bytes,
            source: source.saturating_add((stored.bytes.len() - bytes.len()) as u64),
            output: output.clone(),
            edition: self.edition,
        };
        let added = match record.kind {
            RecordKind::Full => plan.add(engine, &placed),
            RecordKind::Difference => plan.add_difference(&placed),
            RecordKind::Copy => Ok(Placement::Device),
            RecordKind::Delta => add_delta(engine, &placed, plan),
            // Has a source, which has been refused above.
            RecordKind::Grown => Ok(Placement::Cpu(Reason::Base)),
        };
        let added = added.and_then(|placement| {
            if let (Placement::Device, Some(info)) = (placement, info) {
                plan.add_digest(output, info.digest)?;
            }
            Ok(placement)
        });
        added.map_err(|error| error.within(record.payload.start).tensor(&record.name))
    }
}

fn add_delta<E: Engine>(
    engine: &E,
    placed: &PlacedFrame,
    plan: &mut DevicePlan,
) -> Result<Placement> {
    let delta = Delta::parse(placed.bytes)?;
    if delta.len_bytes() != placed.output.end.saturating_sub(placed.output.start) {
        let detail = "the delta was made against a base of another length";
        return Err(Error::malformed(Rule::DeltaReference, detail));
    }
    let inner = delta.inner();
    let head_bytes = (placed.bytes.len() - inner.len()) as u64;
    let placed = PlacedFrame {
        bytes: inner,
        source: placed.source.saturating_add(head_bytes),
        output: placed.output.clone(),
        edition: Edition::Plain,
    };
    plan.add_xor(engine, &placed)
        .map_err(|error| error.within(head_bytes))
}
