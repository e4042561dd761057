//! Damaged and false headers of packed files in other formats are refused.

use super::original_files::{
    FLAG_AT, VIRTUAL, assert_same_tensors, folder, gguf, model, pack, packed_and_restored, rule_of,
};
use zstn::{Job, PackOptions, Reader, UnpackOptions, VerifyOptions};
use zstn_core::Rule;
use zstn_core::bytes::index;
use zstn_core::container::zstn::ContainerPrefix;
use zstn_tests::foreign::open_in_trips;
use zstn_tests::gguf::F32;
use zstn_tests::rng::Rng;

#[test]
fn a_damaged_flag_or_length_is_found() {
    let folder = folder();
    let original = model();
    let options = PackOptions::default();
    let packed = packed_and_restored(folder.path(), "model.gguf", &original, &options);
    let damaged = folder.path().join("damaged.zstn");
    let refused = |bytes: &[u8]| -> Option<Rule> {
        std::fs::write(&damaged, bytes).expect("written");
        let unpacked = zstn::unpack(
            &Job::new(),
            &damaged,
            folder.path().join("restored"),
            &UnpackOptions::default(),
        );
        let opened = Reader::open(&damaged).err();
        let rule = rule_of(&unpacked.expect_err("damaged"));
        assert_eq!(opened.as_ref().and_then(rule_of), rule);
        rule
    };
    let mut flag = packed.clone();
    flag[FLAG_AT] &= !VIRTUAL;
    assert_eq!(refused(&flag), Some(Rule::ZstnHeadChecksum));
    // Without checksums, the file without the flag restores the form.
    let options = PackOptions::default().integrity(false);
    let mut packed = packed_and_restored(folder.path(), "model.gguf", &original, &options);
    let prefix = ContainerPrefix::parse(&packed, packed.len() as u64).expect("a prefix");
    assert_eq!(prefix.original_len_bytes(), original.len() as u64);
    let mut length = packed.clone();
    length[index(prefix.header.end)] ^= 1;
    assert_eq!(refused(&length), Some(Rule::ZstnTiling));
    packed[FLAG_AT] &= !VIRTUAL;
    let form = zstn_core::container::zstn::unpack(&zstn_tests::native(), &packed).expect("a form");
    assert!(form.ends_with(&original));
    std::fs::write(folder.path().join("form.safetensors"), &form).expect("written");
    let form = Reader::open(folder.path().join("form.safetensors")).expect("a safetensors file");
    assert!(form.find("output.weight").is_ok());
}

/// Replaces a text in the header of a packed file by another one of the same length.
pub(super) fn replaced(packed: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = packed
        .windows(from.len())
        .position(|window| window == from.as_bytes());
    let at = at.unwrap_or_else(|| panic!("{from} is not in the header"));
    let mut out = packed.to_vec();
    out[at..at + to.len()].copy_from_slice(to.as_bytes());
    out
}

#[test]
fn headers_that_do_not_describe_the_original_are_refused() {
    let folder = folder();
    let original = model();
    let options = PackOptions::default().integrity(false);
    let packed = packed_and_restored(folder.path(), "model.gguf", &original, &options);
    let opened = |packed: &[u8]| open_in_trips(packed).map(drop).map_err(|e| e.rule());
    assert_eq!(opened(&packed), Ok(()));
    let views = |text: &str| text.replace('"', "\\\"");
    let places = views(r#"["blk.0.norm.bias","F32",[64],"#);
    let at = packed
        .windows(places.len())
        .position(|w| w == places.as_bytes());
    let at = at.expect("a view") + places.len();
    let digits = packed[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let place = std::str::from_utf8(&packed[at..at + digits])
        .expect("digits")
        .to_owned();
    // The view before this one begins with its span, and has 256 bytes.
    let across = (place.parse::<u64>().expect("a number") - 260).to_string();
    let elsewhere = "9".repeat(digits);
    for (from, to) in [
        ("zstn.file".into(), "zstn.fil_".into()),
        (views(r#""complete":true"#), views(r#""complete":tru_"#)),
        (
            views(r#""bytes":"@bytes/""#),
            views(r#""bytes":77@bytes/77"#),
        ),
        (r#""type":"Q4_K""#.into(), r#""type":"Q4_X""#.into()),
        (r#""type":"Q4_K""#.into(), r#""type":"Q5_K""#.into()),
        (format!("{places}{place}"), format!("{places}{across}")),
        ("blk.0.norm.bias".into(), "blk.0.norm.bia\\".into()),
        (views(r#""F32",[64]"#), views(r#""F99",[64]"#)),
    ] {
        let (from, to): (String, String) = (from, to);
        let refused = opened(&replaced(&packed, &from, &to));
        assert!(
            matches!(
                refused,
                Err(Some(Rule::ZstnVirtualHeader | Rule::SafetensorsJson))
            ),
            "{from} → {to}: {refused:?}"
        );
    }
    // Two views of one name, and a view with the name of an entry.
    for (from, to) in [
        (
            r#"["blk.0.norm.bias","F32",[64]"#,
            r#"["output.weight","F32",[64,1]"#,
        ),
        (
            r#"["blk.0.scales.weight","Q8_0",[2,32]"#,
            r#"["blk.0.norm.weight","Q8_0",[1,2,32]"#,
        ),
    ] {
        let (from, to) = (views(from), views(to));
        assert_eq!(
            opened(&replaced(&packed, &from, &to)),
            Err(Some(Rule::ZstnVirtualHeader))
        );
    }
    // These headers describe a file, but not this one, which only the original shows.
    for (from, to) in [
        ("blk.0.norm.bias", "blk.0.norm.biaz"),
        (r#"\"F32\",[64]"#, r#"\"U32\",[64]"#),
        (
            &*format!("{places}{place}"),
            &*format!("{places}{elsewhere}"),
        ),
        (r#"\"kind\":\"gguf\""#, r#"\"kind\":\"npy\" "#),
    ] {
        let lie = replaced(&packed, from, to);
        assert_eq!(opened(&lie), Ok(()), "{to}");
        std::fs::write(folder.path().join("lie.zstn"), lie).expect("written");
        let path = folder.path().join("lie.zstn");
        let verified = zstn::verify(&Job::new(), path, &VerifyOptions::default());
        let error = verified.expect_err("another file");
        assert_eq!(rule_of(&error), Some(Rule::ZstnVirtualHeader), "{to}");
    }
}

/// Other packers may list a tensor without bytes as an entry, which then begins where some
/// other entry does.
#[test]
fn a_tensor_without_bytes_has_no_place() {
    let folder = folder();
    let mut rng = Rng(4);
    let original = gguf(&[
        ("weight", F32, &[64, 32], rng.bytes(8192)),
        ("empty", F32, &[0, 7], Vec::new()),
        ("last", F32, &[64, 32], rng.bytes(8192)),
    ]);
    std::fs::write(folder.path().join("model.gguf"), &original).expect("written");
    let plain = Reader::open(folder.path().join("model.gguf")).expect("opened");
    let start = plain.find("weight").expect("listed").parts[0].stored.start;
    let end = original.len() as u64;
    let file = r#"{\"kind\":\"gguf\",\"bytes\":\"@bytes/\",\"complete\":true}"#;
    let entry = |name: &str, dtype: &str, shape: &[u64], begin: u64, end: u64| {
        format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#
        )
    };
    let packed = |dtype: &str| -> Vec<u8> {
        let header = [
            format!(r#"{{"__metadata__":{{"zstn.file":"{file}"}}"#),
            entry("empty", dtype, &[7, 0], 0, 0),
            entry("@bytes/0", "U8", &[start], 0, start),
            entry("weight", "F32", &[32, 64], start, start + 8192),
            entry("last", "F32", &[32, 64], start + 8192, end),
        ]
        .join(",")
            + "}";
        let len = (header.len() as u64).to_le_bytes();
        let form = [&len[..], header.as_bytes(), &original].concat();
        std::fs::write(folder.path().join("form.safetensors"), form).expect("written");
        let options = PackOptions::default().integrity(false);
        pack(folder.path(), "form.safetensors", &options);
        let path = folder.path().join("packed.zstn");
        let mut packed = std::fs::read(&path).expect("packed");
        packed[FLAG_AT] |= VIRTUAL;
        std::fs::write(path, &packed).expect("written");
        packed
    };
    let verified = || {
        let path = folder.path().join("packed.zstn");
        zstn::verify(&Job::new(), path, &VerifyOptions::default())
    };
    let bytes = packed("F32");
    assert!(
        zstn_core::container::zstn::unpack(&zstn_tests::native(), &bytes) == Ok(original.clone())
    );
    verified().expect("the same tensors");
    let reader = Reader::open(folder.path().join("packed.zstn")).expect("opened");
    assert_same_tensors("packed", &reader, &plain);
    packed("I32");
    let error = verified().expect_err("another dtype");
    assert_eq!(rule_of(&error), Some(Rule::ZstnVirtualHeader));
}
