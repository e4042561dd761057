//! Writes zTensor 0.1 files.

use std::borrow::Cow;

use zstn_core::container::foreign::ztensor::{
    ByteOrder, DigestKind, PartStorage, SourceTensor, ZTensorWriter, can_write,
};
use zstn_core::engine::ZstdCoding;

use super::Written;
use super::conversion::Conversion;
use crate::{Output, Progress as _, Result};

/// The compression level of zstd that released zTensor writers use.
const LEVEL: i32 = 3;

pub fn write(
    conversion: &Conversion,
    is_zstd: bool,
    checksum: Option<DigestKind>,
) -> Result<Written> {
    let refuse = conversion.refuse();
    let tensors = conversion.tensors();
    if let Some(tensor) = tensors.iter().find(|tensor| !can_write(tensor.dtype)) {
        let error = zstn_core::Error::unsupported(format!(
            "zTensor 0.1 has no dtype {}; convert to .safetensors or .zstn, which have it",
            tensor.dtype
        ));
        return Err(refuse(error.tensor(&tensor.name)));
    }
    let storage = match is_zstd {
        true => PartStorage::Zstd(ZstdCoding::Search(LEVEL)),
        false => PartStorage::Raw(ByteOrder::Little),
    };
    let entries: Vec<SourceTensor> = tensors
        .iter()
        .map(|tensor| SourceTensor {
            storage,
            checksum,
            ..SourceTensor::dense(&tensor.name, tensor.dtype, &tensor.shape)
        })
        .collect();
    conversion.job.begin(conversion.tensor_bytes());
    let mut output = conversion.create(conversion.output)?;
    let (mut writer, magic) = ZTensorWriter::new();
    output.write(&magic)?;
    let mut len_bytes = magic.len() as u64;
    let mut put = |output: &mut Output, bytes: &[u8]| {
        len_bytes += bytes.len() as u64;
        output.write(bytes)
    };
    let numbers: Vec<usize> = (0..tensors.len()).collect();
    conversion.each(
        &numbers,
        |number, tensor| {
            let stored = entries[number].encode(&conversion.job.engine, &tensor.bytes);
            Ok(match stored.map_err(&refuse)? {
                Cow::Owned(stored) => stored,
                Cow::Borrowed(_) => tensor.bytes,
            })
        },
        |number, stored| {
            let padding = writer.add(&entries[number], &stored);
            put(&mut output, padding.map_err(&refuse)?)?;
            put(&mut output, &stored)
        },
    )?;
    put(&mut output, &writer.finish())?;
    output.complete(&conversion.job)?;
    Ok(Written::file(conversion, len_bytes))
}
