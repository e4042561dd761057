//! Malformed ZSTN files: the index, and the integrity sections and block tables, which
//! z4ai's vectors do not have.

use zstn_core::catalog::FileOpener;
use zstn_core::container::zstn::ContainerOptions;
use zstn_core::container::zstn::integrity::checksum;
use zstn_core::container::zstn::rows::BlockTable;
use zstn_core::container::zstn::{pack_into, unpack};
use zstn_core::engine::Engine;
use zstn_core::frame::select::Effort;
use zstn_core::pure::Pure;
use zstn_core::{Result, Rule};
use zstn_tests::checkpoint;

use super::Case;

const FOOTER_BYTES: usize = 20;

/// Packs tensors into a file without an integrity section.
fn packed(tensors: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let mut file = Vec::new();
    let checkpoint = checkpoint(tensors);
    let options = ContainerOptions::new(Effort::Fast).integrity(false);
    pack_into(&Pure, &checkpoint, options, &mut file).expect("packs");
    file
}

/// Returns a file whose index states more records than fit in any file.
fn endless_index() -> Vec<u8> {
    let mut file = packed(&[("t", "U8", b"bytes")]);
    let footer = file.len() - FOOTER_BYTES;
    let offset = file[footer..].first_chunk().expect("an offset");
    let index = usize::try_from(u64::from_le_bytes(*offset)).expect("a small file");
    file[index..index + 4].fill(0xFF);
    file
}

/// Returns a file whose last tensor ends before it begins.
fn span_that_ends_early() -> Vec<u8> {
    let mut file = packed(&[("first", "U8", b"12345"), ("last", "U8", b"123")]);
    let name = file.windows(4).rposition(|window| window == b"last");
    // The start and end of its span, 5 and 8, follow the name.
    file[name.expect("in the index") + 4 + 8] = 2;
    file
}

/// Returns a file of one tensor whose integrity section has only this record.
fn with_record(tag: [u8; 4], value: &[u8]) -> Vec<u8> {
    let mut file = packed(&[("t", "U8", b"bytes")]);
    let footer = file.split_off(file.len() - FOOTER_BYTES);
    let len = (value.len() as u64).to_le_bytes();
    let mut section = [&[1, 0][..], &tag, &len, value].concat();
    section.extend_from_slice(&checksum([section.as_slice()]).to_le_bytes());
    let len = (section.len() as u64).to_le_bytes();
    [&file[..], &section, &len, b"ZSTNINTG", &footer].concat()
}

/// Returns the length of the packed checkpoint, with a wrong SHA-256.
fn other_file() -> Vec<u8> {
    let len = checkpoint(&[("t", "U8", b"bytes")]).len() as u64;
    [&len.to_le_bytes()[..], &[0; 32]].concat()
}

/// Returns a block table of a stored one-byte plane whose checksum is stated as 0.
fn block_table() -> Result<BlockTable> {
    let mut table = vec![0, 1, 0, 0];
    table.extend_from_slice(&0u64.to_le_bytes());
    table.extend_from_slice(&1u64.to_le_bytes());
    table.extend_from_slice(&0u32.to_le_bytes());
    table.extend_from_slice(&checksum([table.as_slice()]).to_le_bytes());
    BlockTable::parse(&table, 1, 1)
}

/// Opens the file and reads its statistics.
fn statistics(file: &[u8]) -> Result<()> {
    let opener = FileOpener::new(file.len() as u64, file.to_vec())?;
    assert!(opener.needs()?.is_empty(), "the whole file is there");
    opener.finish(&Pure)?.statistics().map(drop)
}

pub fn cases(engine: &impl Engine) -> Vec<Case> {
    let unpacked =
        |tag: &[u8; 4], value: &[u8]| unpack(engine, &with_record(*tag, value)).map(drop);
    let block_table = block_table().expect("in order");
    vec![
        (
            Rule::ZstnIndexCount,
            unpack(engine, &endless_index()).map(drop),
        ),
        (
            Rule::ZstnTiling,
            unpack(engine, &span_that_ends_early()).map(drop),
        ),
        // A checksum takes eight bytes.
        (Rule::ZstnIntegrity, unpacked(b"FRMS", &[0; 7])),
        (Rule::ZstnHeadChecksum, unpacked(b"HEAD", &[0; 16])),
        (Rule::ZstnFrameChecksum, unpacked(b"FRMS", &[0; 8])),
        (Rule::ZstnTensorDigest, unpacked(b"TENS", &[0; 32])),
        (Rule::ZstnFileDigest, unpacked(b"FILE", &other_file())),
        (
            Rule::ZstnBlockTable,
            BlockTable::parse(&[0; 8], 0, 0).map(drop),
        ),
        (Rule::ZstnBlockChecksum, block_table.check(b"x")),
        // Six zeros are stated for five elements.
        (
            Rule::ZstnStatistics,
            statistics(&with_record(*b"STAT", &[1, 12])),
        ),
    ]
}
