//! Headers of new files (docs/formats/z4ai-containers.md 1), in the spelling of
//! the official writer.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{PREFIX_BYTES, Tensor, check_tensor};
use crate::limits::HEADER_LEN_BYTES;
use crate::{Error, Result};

/// Returns the first bytes of a file: the length of the header, and the header
/// with padding, so that the data begin at a multiple of eight. `tensors` must
/// be in data order, without gaps between their spans. The `metadata` come
/// first, unless they are empty.
///
/// # Errors Tensors that the format cannot store, because their elements do not
/// fill whole bytes or because they are called `__metadata__`, and a header
/// over the cap.
pub fn head(metadata: &BTreeMap<String, String>, tensors: &[Tensor]) -> Result<Vec<u8>> {
    head_of((!metadata.is_empty()).then_some(metadata), tensors)
}

/// Returns the first bytes of a file like [`head`]. With `Some`, even empty
/// metadata become an entry of the header, as the official package writes it.
pub fn head_of(metadata: Option<&BTreeMap<String, String>>, tensors: &[Tensor]) -> Result<Vec<u8>> {
    let mut head = Vec::from([0; 8]);
    head.push(b'{');
    let mut separator = "";
    if let Some(metadata) = metadata {
        let pairs = metadata
            .iter()
            .map(|(key, value)| format!("{}:{}", quoted(key), quoted(value)));
        let entry = format!("\"__metadata__\":{{{}}}", joined(pairs));
        head.extend_from_slice(entry.as_bytes());
        separator = ",";
    }
    let mut end = 0;
    for tensor in tensors {
        if tensor.name == "__metadata__" {
            return Err(Error::unsupported(
                "a safetensors file cannot have a tensor of this name: rename it",
            )
            .tensor(&tensor.name));
        }
        let mut dimensions = tensor.shape.iter();
        let elements =
            dimensions.try_fold(1u64, |product, &dimension| product.checked_mul(dimension));
        check_tensor(tensor, elements, end).map_err(|error| error.tensor(&tensor.name))?;
        end = tensor.span.end;
        let entry = format!(
            "{separator}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{end}]}}",
            quoted(&tensor.name),
            tensor.dtype,
            joined(tensor.shape.iter().map(u64::to_string)),
            tensor.span.start,
        );
        head.extend_from_slice(entry.as_bytes());
        separator = ",";
    }
    head.push(b'}');
    head.resize(head.len().next_multiple_of(8), b' ');
    let len_bytes = head.len() as u64 - PREFIX_BYTES;
    if len_bytes > HEADER_LEN_BYTES {
        return Err(Error::limit(format!(
            "the header would have {len_bytes} bytes, over the cap of {HEADER_LEN_BYTES} of \
             safetensors: write a sharded checkpoint"
        )));
    }
    head[..8].copy_from_slice(&len_bytes.to_le_bytes());
    Ok(head)
}

/// Returns a string as JSON. Serializing a [`serde_json::Value`] instead would
/// link the code for all kinds of values, including sorting and floating-point
/// numbers, into the WebAssembly module for readers.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text in memory can be written")
}

/// Joins the items with commas.
fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rule;
    use crate::container::safetensors::Header;
    use crate::dtype::Dtype;
    use alloc::vec;

    fn tensor(name: &str, dtype: Dtype, shape: &[u64], span: core::ops::Range<u64>) -> Tensor {
        Tensor {
            name: name.into(),
            dtype,
            shape: shape.into(),
            span,
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let metadata = BTreeMap::from([("for\"mat".to_string(), "p\nt".to_string())]);
        let tensors = vec![
            tensor("b \"quoted\" \u{1F980}", Dtype::F32, &[2, 3], 0..24),
            tensor("empty", Dtype::I64, &[0, 7], 24..24),
            tensor("", Dtype::F4, &[4], 24..26),
            tensor("scalar", Dtype::C64, &[], 26..34),
        ];
        let head = head(&metadata, &tensors).unwrap();
        assert_eq!(head.len() % 8, 0);
        assert_eq!(head[..8], (head.len() as u64 - 8).to_le_bytes());
        let header = Header::parse(&head[8..], 34).unwrap();
        assert_eq!(header, Header { tensors, metadata });
        let bare = super::head(&BTreeMap::new(), &[]).unwrap();
        assert_eq!(bare, b"\x08\0\0\0\0\0\0\0{}      ");
    }

    #[test]
    fn what_no_file_can_hold() {
        let write = |tensor| head(&BTreeMap::new(), &[tensor]).unwrap_err();
        let odd = write(tensor("odd", Dtype::F4, &[3], 0..2));
        assert_eq!(
            (odd.rule(), odd.tensor_name()),
            (Some(Rule::SafetensorsSubByte), Some("odd"))
        );
        let huge = write(tensor("w", Dtype::U8, &[1 << 40, 1 << 40, 0], 0..0));
        assert_eq!(huge.rule(), Some(Rule::SafetensorsOverflow));
        let name = write(tensor("__metadata__", Dtype::U8, &[1], 0..1));
        assert_eq!(name.tensor_name(), Some("__metadata__"));
    }
}
