//! The layout and memory use of `zstn ls`.

use zstn_tests::command::{json, text, zstn};

use super::without_elements;
use crate::folder_with;

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
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header);
    file.extend_from_slice(&[1, 2, 3, 4]);
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
