//! Malformed deltas: wrong magics, and invalid trailers, which z4ai's deltas do not
//! have.

use zstn_core::container::model_delta::{Base, ModelDelta, pack};
use zstn_core::engine::Engine;
use zstn_core::frame::delta::Delta;
use zstn_core::frame::select::Effort;
use zstn_core::pure::Pure;
use zstn_core::{Result, Rule};
use zstn_tests::checkpoint;

use super::Case;

/// Offsets of the first record's fields in the trailer's list of records.
const PAYLOAD_LEN: usize = 1;
const DIGEST: usize = 9;

fn base() -> Vec<u8> {
    checkpoint(&[("old", "U8", b"bytes")])
}

/// Returns a delta that stores one tensor as a frame of its own.
fn sealed() -> Vec<u8> {
    let target = checkpoint(&[("new", "U8", b"other bytes")]);
    let base = base();
    let base = Base::parse(&base).expect("a base");
    pack(&Pure, &target, &base, Effort::Fast).expect("packs")
}

/// Flips a bit of a delta, `offset` bytes into the trailer's field `tag`.
fn flipped(tag: &[u8; 4], offset: usize) -> Vec<u8> {
    let mut file = sealed();
    let field = file.windows(4).rposition(|window| window == tag);
    // The length of the field follows the tag.
    file[field.expect("a field of the seal") + 12 + offset] ^= 1;
    file
}

/// Returns the delta with a trailer whose stated length exceeds any file.
fn endless() -> Vec<u8> {
    let mut file = sealed();
    let end = file.len() - 8;
    file[end - 8..end].fill(0xFF);
    file
}

pub fn cases(engine: &impl Engine) -> Vec<Case> {
    let restore = |file: Vec<u8>| -> Result<()> {
        let base = base();
        let delta = ModelDelta::parse(&file)?;
        delta.unpack(engine, &Base::parse(&base)?).map(drop)
    };
    restore(sealed()).expect("in order");
    vec![
        (Rule::DeltaMagic, Delta::parse(b"Z4DX").map(drop)),
        (Rule::DeltaSeal, restore(endless())),
        (Rule::DeltaHeader, restore(flipped(b"HEAD", 0))),
        (Rule::DeltaPlaces, restore(flipped(b"RECS", PAYLOAD_LEN))),
        (Rule::DeltaTensor, restore(flipped(b"RECS", DIGEST))),
        (Rule::DeltaRestored, restore(flipped(b"TRGT", 0))),
    ]
}
