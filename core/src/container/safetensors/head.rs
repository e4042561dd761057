//! Heads of new files (docs/formats/z4ai-containers.md 1), as the official
//! writer spells them.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{PREFIX_BYTES, Tensor, check_tensor};
use crate::limits::HEADER_LEN_BYTES;
use crate::{Error, Result};

/// The first bytes of a file: length, header, and blanks so that the data
/// begin at a multiple of eight. `tensors` are in data order, without holes
/// between their spans; `metadata` stands in front if there is any.
///
/// Refuses tensors that the format cannot hold: with elements that do not
/// fill whole bytes, or called `__metadata__`.
pub fn head(metadata: &BTreeMap<String, String>, tensors: &[Tensor]) -> Result<Vec<u8>> {
    let mut head = Vec::from([0; 8]);
    let mut separator = b'{';
    if !metadata.is_empty() {
        head.extend_from_slice(b"{\"__metadata__\":");
        for (key, value) in metadata {
            head.push(separator);
            separator = b',';
            push_text(&mut head, key);
            head.push(b':');
            push_text(&mut head, value);
        }
        head.push(b'}');
    }
    let mut end = 0;
    for tensor in tensors {
        if tensor.name == "__metadata__" {
            return Err(Error::unsupported(
                "a safetensors file cannot have a tensor of this name: rename it",
            )
            .tensor(&tensor.name));
        }
        check_tensor(tensor, end).map_err(|error| error.tensor(&tensor.name))?;
        end = tensor.span.end;
        head.push(separator);
        separator = b',';
        push_text(&mut head, &tensor.name);
        head.extend_from_slice(b":{\"dtype\":\"");
        head.extend_from_slice(tensor.dtype.name().as_bytes());
        head.extend_from_slice(b"\",\"shape\":");
        push_numbers(&mut head, &tensor.shape);
        head.extend_from_slice(b",\"data_offsets\":");
        push_numbers(&mut head, &[tensor.span.start, end]);
        head.push(b'}');
    }
    if separator == b'{' {
        head.push(b'{');
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

/// As `serde_json` spells it, whose writer takes 7 kB of WebAssembly after
/// compression.
fn push_text(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for byte in text.bytes() {
        let short = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0c => b'f',
            b'\r' => b'r',
            0..0x20 => {
                out.extend_from_slice(b"\\u00");
                out.extend([byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]));
                continue;
            }
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend([b'\\', short]);
    }
    out.push(b'"');
}

fn push_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    out.push(b'[');
    for (i, number) in numbers.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(number.to_string().as_bytes());
    }
    out.push(b']');
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
    fn texts_are_spelled_as_serde_json_does() {
        let text: String = (0..0x180).filter_map(char::from_u32).collect();
        let mut spelled = Vec::new();
        push_text(&mut spelled, &text);
        assert_eq!(spelled, serde_json::to_vec(&text).unwrap());
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
