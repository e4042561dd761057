//! Opening a delta. One with a seal is known after its head, its header and
//! its seal; in others the records are walked, since z4ai's format has no
//! index (docs/formats/zstn-delta.md 4).

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::Catalog;
use super::known::Known;
use super::walk::Walk;
use crate::container::model_delta::{
    Contents, Prefix, Record, Seal, TRAILER_BYTES, fields_len_bytes, usual_bytes,
};
use crate::container::safetensors::Header;
use crate::limits::{DELTA_WHOLE_BYTES, HEADER_LEN_BYTES};
use crate::{Error, Result, Rule};

/// What is known of a delta beyond its bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct DeltaOpening {
    seal: Option<Seal>,
    walk: Option<Walk>,
}

/// Where the fields of the seal lie, once the end of the file is known.
enum End {
    Unknown,
    Unsealed,
    Sealed(Range<u64>),
}

impl DeltaOpening {
    pub(super) fn needs(&self, known: &Known) -> Result<Vec<Range<u64>>> {
        if let Some(walk) = &self.walk {
            return Ok(walk.needs(known).into_iter().collect());
        }
        if self.seal.is_some() {
            return Ok(Vec::new());
        }
        let prefix_len = prefix_len_bytes(known)?;
        let mut missing: Vec<_> = known.missing_head(prefix_len).into_iter().collect();
        let covered = prefix_len.max(known.head().len() as u64);
        let len_bytes = known.len_bytes();
        match end(known, prefix_len)? {
            End::Unknown => {
                let guess = len_bytes.saturating_sub(usual_bytes(prefix_len));
                missing.push(guess.max(covered)..len_bytes);
            }
            End::Sealed(fields) if missing.is_empty() => {
                missing.push(fields.start.max(covered)..known.tail_start());
            }
            _ => {}
        }
        Ok(missing)
    }

    /// Whether the window asked for begins at `offset_bytes`.
    pub(super) fn is_walking_at(&self, offset_bytes: u64) -> bool {
        self.walk
            .as_ref()
            .is_some_and(|walk| !walk.wants_rest() && walk.position() == offset_bytes)
    }

    /// Goes as far as the bytes known allow.
    pub(super) fn advance(&mut self, known: &Known) -> Result<()> {
        if let Some(walk) = &mut self.walk {
            return walk.advance(known);
        }
        let prefix_len = prefix_len_bytes(known)?;
        if self.seal.is_some() || known.missing_head(prefix_len).is_some() {
            return Ok(());
        }
        match end(known, prefix_len)? {
            End::Unknown => return Ok(()),
            End::Unsealed => {}
            End::Sealed(fields) => match known.part(fields.clone()) {
                None => return Ok(()),
                Some(bytes) => {
                    let seal = Seal::from_fields(&bytes).map_err(|e| e.within(fields.start))?;
                    self.seal = Some(seal);
                }
            },
        }
        let prefix = Prefix::parse(known.head(), known.len_bytes())?;
        if self.contents().is_none() {
            let header = self.header(known, &prefix)?;
            let wants_rest = known.len_bytes() <= DELTA_WHOLE_BYTES;
            let mut walk = Walk::new(&prefix, header, wants_rest)?;
            walk.advance(known)?;
            self.walk = Some(walk);
        }
        Ok(())
    }

    fn contents(&self) -> Option<&Contents> {
        self.seal.as_ref()?.contents.as_ref()
    }

    fn header(&self, known: &Known, prefix: &Prefix) -> Result<Header> {
        Header::parse(&known.have(prefix.header.clone()), prefix.data_len_bytes)
    }

    pub(super) fn finish(self, known: &Known) -> Result<Catalog> {
        let prefix = Prefix::parse(known.head(), known.len_bytes())?;
        let (header, records) = match (&self.walk, self.contents()) {
            (None, Some(contents)) => {
                contents.check_header(&known.have(prefix.header.clone()))?;
                let header = self.header(known, &prefix)?;
                let end = known.len_bytes() - TRAILER_BYTES;
                let records = records(&prefix, &header, contents, end)?;
                let places = contents.places.iter().copied().map(Some);
                (header, records.into_iter().zip(places).collect())
            }
            (Some(walk), _) => {
                let (header, records) = walk.clone().finish()?;
                (header, records.into_iter().map(|r| (r, None)).collect())
            }
            (None, None) => {
                return Err(Error::invalid_input("bytes of the file are still missing"));
            }
        };
        let seal = self.seal.as_ref();
        let len_bytes = known.len_bytes();
        let header_json = known.have(prefix.header.clone()).into_owned();
        Catalog::delta(&prefix, header_json, header, records, seal, len_bytes)
    }
}

fn prefix_len_bytes(known: &Known) -> Result<u64> {
    let len = Prefix::len_bytes(known.head(), known.len_bytes())?;
    if len > HEADER_LEN_BYTES {
        return Err(Error::malformed(
            Rule::SafetensorsHeaderCap,
            format!("a header of about {len} bytes is over the cap of {HEADER_LEN_BYTES}"),
        )
        .at(5));
    }
    Ok(len)
}

fn end(known: &Known, prefix_len: u64) -> Result<End> {
    let len_bytes = known.len_bytes();
    // A shorter file has no room for a seal.
    let Some(trailer_start) = len_bytes
        .checked_sub(TRAILER_BYTES)
        .filter(|&start| start >= prefix_len)
    else {
        return Ok(End::Unsealed);
    };
    let Some(trailer) = known.part(trailer_start..len_bytes) else {
        return Ok(End::Unknown);
    };
    let fields = fields_len_bytes(&trailer, prefix_len, trailer_start - prefix_len)?;
    Ok(fields.map_or(End::Unsealed, |len| {
        End::Sealed(trailer_start - len..trailer_start)
    }))
}

/// The records as the seal places them; they stand in the order of the data
/// and follow each other without a gap.
fn records(prefix: &Prefix, header: &Header, contents: &Contents, end: u64) -> Result<Vec<Record>> {
    let count = header.tensors.len();
    if contents.places.len() != count || u64::from(prefix.record_count) != count as u64 {
        return Err(Error::malformed(
            Rule::DeltaPlaces,
            format!(
                "the header lists {count} tensors, the seal {}, the file has {} records",
                contents.places.len(),
                prefix.record_count
            ),
        ));
    }
    let mut position = prefix.end();
    let mut records = Vec::new();
    for (tensor, place) in header.tensors.iter().zip(&contents.places) {
        let start = place.kind.head_bytes(tensor.name.len() as u64) + position;
        position = start
            .checked_add(place.payload_len_bytes)
            .filter(|&position| position <= end)
            .ok_or_else(|| {
                Error::malformed(
                    Rule::DeltaPlaces,
                    "the seal places this record beyond the end of the file",
                )
                .tensor(&tensor.name)
            })?;
        records.push(Record {
            name: tensor.name.clone(),
            span: tensor.span.clone(),
            kind: place.kind,
            payload: start..position,
        });
    }
    Ok(records)
}
