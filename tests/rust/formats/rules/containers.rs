//! Malformed containers: safetensors files, sharded checkpoints, ZSTN files and deltas.

use std::path::Path;

use zstn::{Job, PackOptions, Reader};
use zstn_core::catalog::FileOpener;
use zstn_core::container::model_delta::{self, Base, ModelDelta};
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::container::zstn::integrity::checksum;
use zstn_core::container::zstn::rows::BlockTable;
use zstn_core::container::zstn::{ContainerOptions, pack, pack_into, unpack};
use zstn_core::engine::Engine;
use zstn_core::frame::delta::Delta;
use zstn_core::frame::select::Effort;
use zstn_core::pure::Pure;
use zstn_core::{Result, Rule};
use zstn_tests::foreign::open_in_trips;
use zstn_tests::gguf::three_parts;
use zstn_tests::{checkpoint, with_header};

use super::{Case, read_all};

/// Builds a file from a header and `data_len_bytes` bytes of data.
fn safetensors_file(header: &[u8], data_len_bytes: usize) -> Vec<u8> {
    let mut file = with_header(header, b"");
    file.resize(file.len() + data_len_bytes, 0);
    file
}

/// Returns a header with one tensor.
fn safetensors_header(dtype: &str, shape: &str, offsets: &str) -> Vec<u8> {
    format!(r#"{{"t":{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{offsets}]}}}}"#)
        .into_bytes()
}

/// Builds a file that states this header length and ends after two bytes of the header.
fn of_header_len(len_bytes: u64) -> Vec<u8> {
    [&len_bytes.to_le_bytes()[..], b"{}"].concat()
}

pub fn safetensors_files(engine: &impl Engine) -> Vec<Case> {
    let deep = vec!["1"; 256].join(",");
    let files = [
        (Rule::Recognised, b"not a model file".to_vec()),
        (
            Rule::TensorDimensions,
            safetensors_file(&safetensors_header("U8", &deep, "0,1"), 1),
        ),
        (Rule::SafetensorsHeaderCap, of_header_len(100_000_001)),
        (Rule::SafetensorsHeaderLength, of_header_len(3)),
        (Rule::SafetensorsUtf8, safetensors_file(b"{\"\xFF\":0}", 0)),
        (Rule::SafetensorsJson, safetensors_file(b"{]", 0)),
        (
            Rule::SafetensorsOffsets,
            safetensors_file(&safetensors_header("U8", "1", "1,2"), 2),
        ),
        (
            Rule::SafetensorsOverflow,
            safetensors_file(&safetensors_header("U8", "4294967296,4294967296", "0,0"), 0),
        ),
        (
            Rule::SafetensorsSubByte,
            safetensors_file(&safetensors_header("F4", "1", "0,1"), 1),
        ),
        (
            Rule::SafetensorsSize,
            safetensors_file(&safetensors_header("U8", "2", "0,1"), 1),
        ),
        (Rule::SafetensorsCoverage, safetensors_file(b"{}", 1)),
        (
            Rule::SafetensorsTruncated,
            safetensors_file(&safetensors_header("U8", "2", "0,2"), 1),
        ),
    ];
    let files = files.iter();
    let mut cases: Vec<Case> = files
        .map(|(rule, file)| (*rule, read_all(engine, file)))
        .collect();
    let too_small = pack(&Pure, b"7 bytes", Effort::Fast);
    cases.push((Rule::SafetensorsTooSmall, too_small.map(drop)));
    cases
}

fn index(pairs: &str) -> String {
    format!(r#"{{"weight_map":{{{pairs}}}}}"#)
}

fn parsed_index(json: &str) -> Result<()> {
    ShardIndex::parse(json.as_bytes()).map(drop)
}

/// Creates a folder with an index of `pairs` and the tensor `t` in `m.safetensors` and
/// `m.bin`. Packs the folder by its index and reads the tensor `u`; returns the first
/// error.
fn packed_shards(pairs: &str) -> Result<()> {
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = scratch.path().join("model");
    std::fs::create_dir(&folder).expect("created");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.join(name), bytes).expect("written");
    };
    write("model.safetensors.index.json", index(pairs).as_bytes());
    for name in ["m.safetensors", "m.bin"] {
        write(name, &checkpoint(&[("t", "U8", b"bytes")]));
    }
    let index = folder.join("model.safetensors.index.json");
    let read = Reader::options()
        .open(index.as_path())
        .and_then(|reader| reader.read("u").map(drop));
    let packed = pack_index(&index, &scratch.path().join("packed"));
    let error = match packed.and(read) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    Err(error.refusal().cloned().expect("no error of the disk"))
}

fn pack_index(index: &Path, target: &Path) -> zstn::Result<()> {
    let job = Job::new().engine(&zstn::Engine::new(1)?);
    zstn::pack(&job, index, target, &PackOptions::default()).map(drop)
}

pub fn sharded_checkpoints() -> Vec<Case> {
    vec![
        (Rule::ShardIndex, parsed_index("{}")),
        (Rule::ShardFileName, parsed_index(&index(r#""t":"../m""#))),
        (
            Rule::ShardTensorTwice,
            parsed_index(&index(r#""t":"m","t":"n""#)),
        ),
        (Rule::ShardMissing, packed_shards(r#""t":"n.safetensors""#)),
        (
            Rule::ShardTensorMissing,
            packed_shards(r#""u":"m.safetensors""#),
        ),
        (Rule::ShardRenaming, packed_shards(r#""t":"m.bin""#)),
        (
            Rule::GgufSplit,
            second_gguf_file_as("m-00001-of-00003.gguf"),
        ),
    ]
}

/// Checks the second of three GGUF files under this name.
fn second_gguf_file_as(name: &str) -> Result<()> {
    let [_, (own_name, file), _] = three_parts();
    let (catalog, _) = open_in_trips(&file)?;
    catalog.check_gguf_part(&own_name).expect("in order");
    catalog.check_gguf_part(name).map(drop)
}

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

/// Returns a container whose header is said to be virtual, and does not describe a file.
fn undescribed() -> Vec<u8> {
    let options = ContainerOptions::default().integrity(false);
    let mut file = pack(&Pure, &checkpoint(&[("t", "U8", b"bytes")]), options).expect("packed");
    file[5] |= 8;
    file
}

pub fn zstn_files(engine: &impl Engine) -> Vec<Case> {
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
        (Rule::ZstnVirtualHeader, read_all(engine, &undescribed())),
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

/// Offsets of the first record's fields in the trailer's list of records.
const PAYLOAD_LEN: usize = 1;
const DIGEST: usize = 9;

fn delta_base() -> Vec<u8> {
    checkpoint(&[("old", "U8", b"bytes")])
}

/// Returns a delta that stores one tensor as a frame of its own.
fn sealed_delta() -> Vec<u8> {
    let target = checkpoint(&[("new", "U8", b"other bytes")]);
    let base = delta_base();
    let base = Base::parse(&base).expect("a base");
    model_delta::pack(&Pure, &target, &base, Effort::Fast).expect("packs")
}

/// Flips a bit of a delta, `offset` bytes into the trailer's field `tag`.
fn flipped_delta(tag: &[u8; 4], offset: usize) -> Vec<u8> {
    let mut file = sealed_delta();
    let field = file.windows(4).rposition(|window| window == tag);
    // The length of the field follows the tag.
    file[field.expect("a field of the seal") + 12 + offset] ^= 1;
    file
}

/// Returns the delta with a trailer whose stated length exceeds any file.
fn endless_delta() -> Vec<u8> {
    let mut file = sealed_delta();
    let end = file.len() - 8;
    file[end - 8..end].fill(0xFF);
    file
}

pub fn deltas(engine: &impl Engine) -> Vec<Case> {
    let restore = |file: Vec<u8>| -> Result<()> {
        let base = delta_base();
        let delta = ModelDelta::parse(&file)?;
        delta.unpack(engine, &Base::parse(&base)?).map(drop)
    };
    restore(sealed_delta()).expect("in order");
    vec![
        (Rule::DeltaMagic, Delta::parse(b"Z4DX").map(drop)),
        (Rule::DeltaSeal, restore(endless_delta())),
        (Rule::DeltaHeader, restore(flipped_delta(b"HEAD", 0))),
        (
            Rule::DeltaPlaces,
            restore(flipped_delta(b"RECS", PAYLOAD_LEN)),
        ),
        (Rule::DeltaTensor, restore(flipped_delta(b"RECS", DIGEST))),
        (Rule::DeltaRestored, restore(flipped_delta(b"TRGT", 0))),
    ]
}
