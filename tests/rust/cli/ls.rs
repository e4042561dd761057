//! Lists of tensors: the layout and memory use of `zstn ls`, tensors selected by
//! patterns, and lists in another order.

use serde_json::Value;
use zstn_tests::command::{json, text, zstn};
use zstn_tests::rng::Rng;
use zstn_tests::with_header;

use crate::folder_with;
use crate::printing::without_elements;

#[test]
fn columns_are_aligned() {
    let file = zstn_tests::checkpoint(&[
        ("wte.weight", "BF16", &[7; 2048]),
        ("größe/重み", "F32", &[1; 40]),
        ("wte.tied", "BF16", &[7; 2048]),
    ]);
    let folder = folder_with("m.safetensors", &file);
    let out = zstn(folder.path(), &["ls", "m.safetensors"]);
    assert_eq!(
        text(&out.stdout),
        "name        dtype  shape      size   stored   ratio\n\
         wte.weight  BF16   [1024]  2.05 kB  2.05 kB  1.000×\n\
         größe/重み  F32    [10]       40 B     40 B  1.000×\n\
         wte.tied    BF16   [1024]  2.05 kB  2.05 kB  1.000×\n"
    );
    let packed = zstn(folder.path(), &["pack", "m.safetensors"]);
    assert!(packed.status.success(), "{}", text(&packed.stderr));
    let out = zstn(folder.path(), &["ls", "m.zstn"]);
    assert_eq!(
        text(&out.stdout),
        "name        dtype  shape      size  stored    ratio\n\
         wte.weight  BF16   [1024]  2.05 kB    44 B  46.545×\n\
         größe/重み  F32    [10]       40 B    43 B   0.930×\n\
         wte.tied    BF16   [1024]  2.05 kB       –        –  = wte.weight\n"
    );
}

#[test]
fn digests_are_those_that_the_file_stores() {
    let content = [7; 2048];
    let file = zstn_tests::checkpoint(&[("head", "BF16", &content), ("tied", "BF16", &content)]);
    let folder = folder_with("m.safetensors", &file);
    let digests = |name: &str| {
        let list = json(&zstn(folder.path(), &["ls", name, "--json"]));
        [0, 1].map(|number| list["tensors"][number]["digest"].clone())
    };
    assert!(digests("m.safetensors").iter().all(Value::is_null));
    let packed = zstn(folder.path(), &["pack", "m.safetensors"]);
    assert!(packed.status.success(), "{}", text(&packed.stderr));
    let whole = zstn_core::digest::of_pieces([&content[..]]);
    let hex: String = whole[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(digests("m.zstn"), [hex.clone().into(), Value::String(hex)]);
}

#[test]
fn a_long_name_does_not_widen_the_other_lines() {
    let long = "n".repeat(60_000);
    let mut names: Vec<String> = (0..2000).map(|n| format!("layers.{n}.weight")).collect();
    names.push(long.clone());
    let file = without_elements(names.iter().map(String::as_str));
    let folder = folder_with("m.safetensors", &file);
    let out = zstn(folder.path(), &["ls", "m.safetensors"]);
    let names_len: usize = names.iter().map(String::len).sum();
    assert!(
        out.stdout.len() <= names_len + 200 * names.len(),
        "{} bytes for names of {names_len}",
        out.stdout.len()
    );
    let out = text(&out.stdout);
    assert!(out.lines().any(|line| line.starts_with(&long)));
    assert_eq!(out.lines().count(), names.len() + 1);
}

#[test]
fn a_long_name_is_not_repeated_by_those_that_share_its_bytes() {
    let long = "n".repeat(60_000);
    let names: Vec<String> = (0..500).map(|n| format!("layers.{n}.weight")).collect();
    let mut tensors = vec![(long.as_str(), "U8", &[3_u8; 64][..])];
    tensors.extend(names.iter().map(|name| (name.as_str(), "U8", &[3; 64][..])));
    let folder = folder_with("m.safetensors", &zstn_tests::checkpoint(&tensors));
    let packed = json(&zstn(folder.path(), &["pack", "m.safetensors", "--json"]));
    assert_eq!(packed["files"][0]["aliased_tensors"], 500);
    let out = zstn(folder.path(), &["ls", "m.zstn"]);
    assert!(out.stdout.len() < 300_000, "{} bytes", out.stdout.len());
}

#[cfg(target_os = "linux")]
mod memory {
    use std::io::Read;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use zstn_tests::command::program;

    use super::*;

    /// Returns the peak memory of a `zstn` process in bytes. Its output goes to a pipe
    /// that is read slowly, so that the process still exists when its memory is
    /// queried.
    fn peak(folder: &Path, arguments: &[&str]) -> u64 {
        let mut child = Command::new(program())
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("zstn runs");
        let status = format!("/proc/{}/status", child.id());
        let mut output = child.stdout.take().expect("piped");
        let mut buffer = vec![0; 1 << 18];
        let mut peak_kib = 0;
        loop {
            // The line is missing once the process has ended.
            let status = std::fs::read_to_string(&status).unwrap_or_default();
            let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
            peak_kib = peak_kib.max(kib.unwrap_or(0));
            if output.read(&mut buffer).expect("read") == 0 {
                break;
            }
        }
        assert!(child.wait().expect("zstn ends").success());
        assert!(peak_kib > 0, "the output fits into a pipe");
        peak_kib << 10
    }

    #[test]
    fn lists_are_written_as_they_are_made() {
        let [few, many] = [20_000, 60_000].map(|count| {
            let names: Vec<String> = (0..count).map(|n| format!("layers.{n}.weight")).collect();
            let file = without_elements(names.iter().map(String::as_str));
            let folder = folder_with("m.safetensors", &file);
            [
                &["ls", "m.safetensors"][..],
                &["ls", "m.safetensors", "--json"],
            ]
            .map(|arguments| peak(folder.path(), arguments))
        });
        for (few, many) in few.into_iter().zip(many) {
            let each = many.saturating_sub(few) / 40_000;
            assert!(each < MOST_BYTES, "{each} bytes for each tensor more");
        }
    }

    /// Memory limit per tensor: one and a half times the memory of the model itself.
    const MOST_BYTES: u64 = 1500;
}

#[test]
fn one_unknown_dtype_makes_one_tensor_unreadable() {
    let header = br#"{"a":{"dtype":"FP4","shape":[4],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}"#;
    let file = with_header(header, [1, 2, 3, 4]);
    let folder = folder_with("m.safetensors", &file);
    let run = |arguments: &[&str]| zstn(folder.path(), arguments);

    let listed = run(&["ls", "m.safetensors"]);
    let printed = text(&listed.stdout).to_owned() + &text(&listed.stderr);
    assert!(listed.status.success(), "{printed}");
    assert!(
        printed.contains("b     U8") && printed.contains("a cannot be read"),
        "{printed}"
    );
    let refused = &json(&run(&["ls", "--json", "m.safetensors"]))["refused"];
    assert_eq!(refused[0]["name"], "a", "{refused}");
    assert!(
        refused[0]["message"].as_str().unwrap().contains("`FP4`"),
        "{refused}"
    );

    assert_eq!(run(&["get", "m.safetensors", "b"]).stdout, [3, 4]);
    let got = run(&["get", "m.safetensors", "a"]);
    assert!(!got.status.success() && text(&got.stderr).contains("`FP4`"));
    // Commands that need all tensors do not skip any.
    let converted = run(&["convert", "m.safetensors", "m.zt"]);
    assert!(!converted.status.success() && text(&converted.stderr).contains("`FP4`"));
    let packed = run(&["pack", "m.safetensors"]);
    assert!(packed.status.success(), "{}", text(&packed.stderr));
    let unpacked = run(&["unpack", "m.zstn", "-o", "again.safetensors"]);
    assert!(unpacked.status.success(), "{}", text(&unpacked.stderr));
    let again = std::fs::read(folder.path().join("again.safetensors")).unwrap();
    assert_eq!(again, file);
}

/// Creates a packed model with two layers of two tensors, and an embedding.
fn model() -> (tempfile::TempDir, Vec<(&'static str, Vec<u8>)>) {
    let mut rng = Rng(41);
    let tensors = vec![
        ("layers.0.up.weight", rng.bf16_weights(3000)),
        ("layers.0.down.weight", vec![0; 6000]),
        ("layers.10.up.weight", rng.bf16_weights(4000)),
        ("embed", rng.bytes(5000)),
    ];
    let with_dtypes: Vec<_> = tensors
        .iter()
        .map(|(name, bytes)| {
            (
                *name,
                if *name == "embed" { "U8" } else { "BF16" },
                &bytes[..],
            )
        })
        .collect();
    let folder = folder_with("m.safetensors", &zstn_tests::checkpoint(&with_dtypes));
    let out = zstn(folder.path(), &["pack", "m.safetensors"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    (folder, tensors)
}

#[test]
fn lists_hold_what_is_asked_for_in_that_order() {
    let (folder, _) = model();
    let names = |more: &[&str]| {
        let list = json(&zstn(
            folder.path(),
            &[&["ls", "m.zstn", "--json"], more].concat(),
        ));
        let tensors = list["tensors"].as_array().unwrap().iter();
        let names: Vec<String> = tensors
            .map(|tensor| tensor["name"].as_str().unwrap().to_owned())
            .collect();
        names.join(" ")
    };
    let in_file = "layers.0.up.weight layers.0.down.weight layers.10.up.weight embed";
    assert_eq!(names(&[]), in_file);
    assert_eq!(
        names(&["--name", "layers.0.*"]),
        "layers.0.up.weight layers.0.down.weight"
    );
    assert_eq!(
        names(&["--name", "embed", "--name", "*.1?.*"]),
        "layers.10.up.weight embed"
    );
    assert_eq!(names(&["--dtype", "u8"]), "embed");
    assert_eq!(
        names(&["--sort", "name", "--dtype", "BF16"]),
        "layers.0.down.weight layers.0.up.weight layers.10.up.weight"
    );
    assert_eq!(
        names(&["--sort", "size"]),
        "layers.10.up.weight layers.0.up.weight layers.0.down.weight embed"
    );
    assert!(names(&["--sort", "ratio"]).starts_with("layers.0.down.weight "));
    assert!(names(&["--sort", "ratio", "--reverse"]).starts_with("embed "));
    assert!(names(&["--sort", "stored"]).ends_with("layers.0.down.weight"));
    let out = zstn(folder.path(), &["ls", "m.zstn", "--name", "layers.0.*"]);
    assert_eq!(text(&out.stdout).lines().count(), 3);
    assert!(
        text(&out.stderr).starts_with("2 of 4 tensors, 12.0 kB in "),
        "{}",
        text(&out.stderr)
    );
    let stats = zstn(
        folder.path(),
        &["ls", "m.zstn", "--name", "*.down.*", "--stats"],
    );
    let stats = text(&stats.stdout);
    assert!(
        stats.lines().nth(1).unwrap().ends_with("3000    0    0"),
        "{stats}"
    );
    for (pattern, said) in [
        ("layers.7.*", "no tensor matches layers.7.*"),
        ("embde", "did you mean `embed`?"),
    ] {
        let out = zstn(folder.path(), &["ls", "m.zstn", "--name", pattern]);
        assert!(!out.status.success(), "{pattern}");
        assert!(text(&out.stderr).contains(said), "{}", text(&out.stderr));
    }
}

#[test]
fn a_tree_sums_up_what_names_have_in_common() {
    let (folder, _) = model();
    let tree = |more: &[&str]| {
        let out = zstn(
            folder.path(),
            &[&["ls", "m.zstn", "--tree", "-q"], more].concat(),
        );
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stdout)
    };
    // The columns are the name, the tensors or the dtype, and sizes.
    let words = |line: &str| -> Vec<String> {
        line.split_whitespace().take(6).map(str::to_owned).collect()
    };
    let all = tree(&[]);
    let lines: Vec<&str> = all.lines().skip(1).collect();
    let names: Vec<&str> = lines
        .iter()
        .map(|line| line.find("  ").map_or(*line, |_| line.trim_end()))
        .collect();
    assert_eq!(names.len(), 6, "{all}");
    assert_eq!(words(lines[0])[..4], ["layers", "3", "20.0", "kB"]);
    assert!(
        lines[1].starts_with("  0 ") && words(lines[1])[1] == "2",
        "{all}"
    );
    assert!(lines[2].starts_with("    up.weight "), "{all}");
    assert_eq!(words(lines[2])[1..4], ["BF16", "[3000]", "6.00"]);
    assert!(lines[4].starts_with("  10.up.weight "), "{all}");
    assert!(lines[5].starts_with("embed "), "{all}");
    let shallow = tree(&["--depth", "1"]);
    assert_eq!(shallow.lines().count(), 3, "{shallow}");
    let layer = tree(&["--name", "layers.0.*"]);
    assert!(
        layer.lines().nth(1).unwrap().starts_with("layers.0 "),
        "{layer}"
    );
}

#[test]
fn several_tensors_go_into_one_file() {
    let (folder, tensors) = model();
    let get = |arguments: &[&str]| zstn(folder.path(), &[&["get", "m.zstn"], arguments].concat());
    let out = get(&["layers.*", "layers.0.up.weight", "-o", "some.safetensors"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stderr).starts_with("3 tensors → some.safetensors: 20.0 kB"));
    for (name, bytes) in &tensors[..3] {
        let read = zstn(folder.path(), &["get", "some.safetensors", name]);
        assert!(read.stdout == *bytes, "{name}");
    }
    let out = get(&["*", "--rows", "-5:", "-o", "rows.safetensors", "--json"]);
    let printed = text(&out.stdout);
    assert_eq!(printed.lines().count(), 4, "{printed}");
    for (name, bytes) in &tensors {
        let width = if *name == "embed" { 1 } else { 2 };
        let read = zstn(folder.path(), &["get", "rows.safetensors", name]);
        assert!(read.stdout == bytes[bytes.len() - 5 * width..], "{name}");
    }
    let out = get(&["layers.0.*", "--summary"]);
    let summaries = text(&out.stdout);
    assert_eq!(
        summaries.matches("name   layers.0.").count(),
        2,
        "{summaries}"
    );
    for arguments in [
        &["layers.*"][..],
        &["*", "-o", "-"],
        &["*", "-o", "all.npy"],
    ] {
        let out = get(arguments);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        assert!(out.stdout.is_empty());
        assert!(
            text(&out.stderr).contains(".safetensors"),
            "{}",
            text(&out.stderr)
        );
    }
    assert!(!folder.path().join("all.npy").exists());
    assert_eq!(
        get(&["layers.9.*", "-o", "x.safetensors"]).status.code(),
        Some(2)
    );
}
