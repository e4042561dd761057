//! Recognises files that users mistake for models, and explains what each one
//! is and how to convert it. The npm package has the same sentences
//! (`tests/other-formats.json`).

use super::file_opener::begins_header;

/// A format that this library recognises but does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OtherFormat {
    Html,
    Xml,
    LfsPointer,
    Json,
    Ggml,
    Pickle,
    Onnx,
    SavedModel,
    Gzip,
}

use OtherFormat::{Ggml, Gzip, Html, Json, LfsPointer, Onnx, Pickle, SavedModel, Xml};

/// The first bytes of each format. If several entries match, the first one
/// wins.
const MAGICS: [(&[u8], OtherFormat); 9] = [
    (b"lmgg", Ggml),
    (b"fmgg", Ggml),
    (b"tjgg", Ggml),
    (b"algg", Ggml),
    (b"\x80\x02", Pickle),
    (b"\x80\x03", Pickle),
    (b"\x80\x04\x95", Pickle),
    (b"\x80\x05\x95", Pickle),
    (b"\x1f\x8b\x08", Gzip),
];

/// Returns a sentence about the file that begins with `head`, without its full
/// stop, or `None` if the format is unknown.
pub(super) fn describe(head: &[u8]) -> Option<&'static str> {
    find(head).map(OtherFormat::sentence)
}

/// Returns whether the file that begins with `head` is an answer of a server, or a
/// pointer of Git LFS, where a model was expected.
#[cfg(feature = "virtual-headers")]
pub(super) fn is_failed_download(head: &[u8]) -> bool {
    matches!(find(head), Some(Html | Xml | LfsPointer))
}

fn find(head: &[u8]) -> Option<OtherFormat> {
    // The upper half of a header length below 4 GiB, followed by a possible
    // first byte of the header: this is a safetensors file, even if a damaged
    // one.
    if head.get(4..8) == Some(&[0; 4]) && begins_header(head.get(8)) {
        return None;
    }
    let by_magic = || {
        let mut magics = MAGICS.iter();
        let found = magics.find(|(magic, _)| head.starts_with(magic));
        found.map(|(_, format)| *format)
    };
    text(head).or_else(by_magic).or_else(|| protobuf(head))
}

fn text(head: &[u8]) -> Option<OtherFormat> {
    let text = head.trim_ascii_start();
    let begins = |word: &[u8]| {
        let start = text.get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    if [&b"<!doctype html"[..], b"<html", b"<head"]
        .into_iter()
        .any(begins)
    {
        return Some(Html);
    }
    if text.starts_with(b"<?xml") {
        return Some(Xml);
    }
    if text.starts_with(b"version https://git-lfs.github.com/") {
        return Some(LfsPointer);
    }
    // A safetensors file begins with the 64-bit length of its header, which
    // contains zero bytes.
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    let is_json = matches!(text, [b'{' | b'[', ..]) && head.get(..8)?.iter().all(is_text);
    is_json.then_some(Json)
}

/// Recognises protocol buffer messages by their first fields, since they have
/// no magic number.
fn protobuf(head: &[u8]) -> Option<OtherFormat> {
    match *head {
        // A saved model begins with the schema version 1, followed by a graph
        // longer than 127 bytes, which begins with its description.
        [0x08, 1, 0x12, 0x80..=0xff, ..] => Some(SavedModel),
        // An ONNX model begins with a version of the format, followed by the
        // name of a producer, the graph or an operator set.
        [0x08, 3..0x40, 0x12, 1..0x80, b' '..=b'~', ..]
        | [0x08, 3..0x40, 0x3a | 0x42, 1..=0xff, ..] => Some(Onnx),
        _ => None,
    }
}

/// The conversion instructions that follow the description of a format with
/// weights.
macro_rules! convert {
    (pytorch $load:literal) => {
        concat!(
            "with save_file from safetensors.torch: save_file({name: tensor.contiguous().clone() \
             for name, tensor in ",
            $load,
            ".items()}, \"model.safetensors\")"
        )
    };
    (numpy $weights:literal) => {
        concat!(
            "with save_file from safetensors.numpy: save_file(",
            $weights,
            ", \"model.safetensors\")"
        )
    };
}

impl OtherFormat {
    fn sentence(self) -> &'static str {
        match self {
            Html => {
                "this is a web page (HTML), not a model file. On a model hub, use the download \
                 link of the file, not the page that shows it"
            }
            Xml => {
                "this is an XML document, not a model file. Object stores send one when they \
                 refuse access"
            }
            LfsPointer => {
                "this is a Git LFS pointer, not the model file itself. Download the file with \
                 `git lfs pull`, or use the download link of the hub"
            }
            Json => {
                "this is a JSON file, not a model file. To open a model in several files, use its \
                 index, whose name ends in .index.json"
            }
            Ggml => {
                "this is a GGML file, the format of llama.cpp before GGUF. Open the model's \
                 original .safetensors instead"
            }
            Pickle => concat!(
                "this is a Python pickle, which can run code when it is loaded. If torch.load \
                 reads it, convert it ",
                convert!(pytorch "torch.load(path, map_location=\"cpu\", weights_only=True)")
            ),
            Onnx => {
                "this is an ONNX model, but its name does not end in .onnx, by which these models \
                 are recognised. Rename it, and open it again"
            }
            SavedModel => concat!(
                "this is the graph of a TensorFlow SavedModel; its weights are in other files of \
                 the same folder. Convert them ",
                convert!(numpy "{variable.name: variable.numpy() for variable in \
                          tf.saved_model.load(folder).variables}")
            ),
            Gzip => "this file is compressed with gzip. Decompress it, and open what comes out",
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    use serde::Deserialize;

    use super::*;
    use crate::catalog::recognise;

    #[derive(Deserialize)]
    struct Table {
        formats: Vec<Row>,
        others: Vec<String>,
    }

    #[derive(Deserialize)]
    struct Row {
        name: String,
        sentence: String,
        heads: Vec<String>,
    }

    fn table() -> Table {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/other-formats.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16);
        digits.map(|pair| byte(pair).unwrap()).collect()
    }

    #[test]
    fn every_format_is_described_by_the_sentence_of_all_surfaces() {
        for Row {
            name,
            sentence,
            heads,
        } in table().formats
        {
            for head in heads {
                let head = bytes(&head);
                let said = describe(&head).unwrap_or_else(|| panic!("{name}: {head:x?}"));
                let said = format!("T{}.", &said[1..]);
                assert_eq!(said, sentence, "{name}");
                // The pattern at the beginning of a longer file.
                let mut file = head.clone();
                file.resize(1000, 0);
                let error = recognise(&file, 1 << 40).unwrap_err();
                assert!(
                    error.to_string().contains(&sentence[1..sentence.len() - 1]),
                    "{error}"
                );
                assert_eq!(error.rule(), Some(crate::Rule::Recognised), "{name}");
            }
        }
    }

    #[test]
    fn other_bytes_are_not_described_and_no_beginning_panics() {
        let Table { formats, others } = table();
        for head in others {
            assert_eq!(describe(&bytes(&head)), None, "{head}");
        }
        for head in formats.iter().flat_map(|row| &row.heads) {
            let head = bytes(head);
            for len in 0..head.len() {
                let _ = describe(&head[..len]);
            }
        }
    }
}
