//! Malformed safetensors files, and files that are not models.

use zstn_core::Rule;
use zstn_core::container::zstn::pack;
use zstn_core::engine::Engine;
use zstn_core::frame::select::Effort;
use zstn_core::pure::Pure;

use super::{Case, read_all};

/// Builds a file from a header and `data_len_bytes` bytes of data.
fn file(header: &[u8], data_len_bytes: usize) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header);
    file.resize(file.len() + data_len_bytes, 0);
    file
}

/// Returns a header with one tensor.
fn header(dtype: &str, shape: &str, offsets: &str) -> Vec<u8> {
    format!(r#"{{"t":{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{offsets}]}}}}"#)
        .into_bytes()
}

/// Builds a file that states this header length and ends after two bytes of the header.
fn of_header_len(len_bytes: u64) -> Vec<u8> {
    [&len_bytes.to_le_bytes()[..], b"{}"].concat()
}

pub fn cases(engine: &impl Engine) -> Vec<Case> {
    let deep = vec!["1"; 256].join(",");
    let files = [
        (Rule::Recognised, b"not a model file".to_vec()),
        (Rule::TensorDimensions, file(&header("U8", &deep, "0,1"), 1)),
        (Rule::SafetensorsHeaderCap, of_header_len(100_000_001)),
        (Rule::SafetensorsHeaderLength, of_header_len(3)),
        (Rule::SafetensorsUtf8, file(b"{\"\xFF\":0}", 0)),
        (Rule::SafetensorsJson, file(b"{]", 0)),
        (Rule::SafetensorsOffsets, file(&header("U8", "1", "1,2"), 2)),
        (
            Rule::SafetensorsOverflow,
            file(&header("U8", "4294967296,4294967296", "0,0"), 0),
        ),
        (Rule::SafetensorsSubByte, file(&header("F4", "1", "0,1"), 1)),
        (Rule::SafetensorsSize, file(&header("U8", "2", "0,1"), 1)),
        (Rule::SafetensorsCoverage, file(b"{}", 1)),
        (
            Rule::SafetensorsTruncated,
            file(&header("U8", "2", "0,2"), 1),
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
