//! Invalid fields of low-rank predictions (docs/formats/zxd1.md 13.1).

use zstn_core::Rule;
use zstn_core::bytes::Cursor;
use zstn_core::dtype::Dtype;
use zstn_core::frame::difference::low_rank::{LowRank, LowRankHead};

use super::Case;

/// Rank 1 for three rows and two columns, with five factors of three bits.
const VALID: LowRankHead = LowRankHead {
    rank: 1,
    bits: 3,
    shifts: [4, 4],
    rows: 3,
    columns: 2,
};

pub fn cases() -> Vec<Case> {
    let read = |head: LowRankHead, dtype, last| {
        let mut bytes = Vec::new();
        head.write(&mut bytes);
        bytes.extend([0, last]);
        LowRank::parse(&mut Cursor::new(&bytes), dtype, 6).map(|_| ())
    };
    assert_eq!(read(VALID, Dtype::Bf16, 0x7F), Ok(()));
    let fields = |head| read(head, Dtype::Bf16, 0);
    vec![
        (Rule::LowRankDtype, read(VALID, Dtype::F16, 0)),
        (Rule::LowRankShape, fields(LowRankHead { rows: 4, ..VALID })),
        (Rule::LowRankShape, fields(LowRankHead { rank: 3, ..VALID })),
        (Rule::LowRankBits, fields(LowRankHead { bits: 25, ..VALID })),
        (
            Rule::LowRankShift,
            fields(LowRankHead {
                shifts: [1000, 23],
                ..VALID
            }),
        ),
        (Rule::LowRankPadding, read(VALID, Dtype::Bf16, 0x80)),
    ]
}
