//! The clean and smudge filter.

use std::io::Write;
use std::path::Path;
use std::process::Output;

use zstn_tests::command::text;
use zstn_tests::many_kinds;

use super::{lfs, zstn_bytes};

/// Runs the filter on these bytes.
fn filter(folder: &Path, direction: &str, bytes: &[u8]) -> Output {
    filter_with(folder, &[direction], bytes)
}

/// Runs the filter with additional arguments on these bytes.
pub fn filter_with(folder: &Path, arguments: &[&str], bytes: &[u8]) -> Output {
    let arguments = [&["filter"], arguments, &["--", "-a name.safetensors"]].concat();
    let mut child = lfs(folder, &arguments).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || to.write_all(&bytes));
    let out = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    out
}

#[test]
fn the_filter_packs_and_unpacks() {
    let folder = tempfile::tempdir().unwrap();
    let model = many_kinds(200_000);
    let packed = filter(folder.path(), "clean", &model);
    assert!(packed.status.success(), "{}", text(&packed.stderr));
    assert!(packed.stdout == zstn_bytes(&model));
    let back = filter(folder.path(), "smudge", &packed.stdout);
    assert!(back.status.success() && back.stdout == model);
    // All other content stays unchanged, including packed files.
    let text_file = b"version https://git-lfs.github.com/spec/v1\n".repeat(30);
    for bytes in [&b""[..], b"x", b"ZLFS\x02", &packed.stdout, &text_file] {
        let out = filter(folder.path(), "clean", bytes);
        assert!(out.status.success() && out.stdout == bytes);
    }
    assert!(filter(folder.path(), "smudge", b"plain").stdout == b"plain");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_filter_refuses_pointers_and_damage() {
    let folder = tempfile::tempdir().unwrap();
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    let out = filter(folder.path(), "clean", pointer);
    assert_eq!(out.status.code(), Some(2));
    assert!(out.stdout.is_empty());
    let said = text(&out.stderr);
    assert!(
        said.contains("-a name.safetensors is a pointer of git-lfs"),
        "{said}"
    );
    let mut packed = zstn_bytes(&many_kinds(50_000));
    let middle = packed.len() / 2;
    packed[middle] ^= 1;
    let out = filter(folder.path(), "smudge", &packed);
    assert_eq!(out.status.code(), Some(1));
    assert!(out.stdout.is_empty());
    assert!(text(&out.stderr).contains("-a name.safetensors: "));
}
