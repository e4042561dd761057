//! Tensors selected by patterns, and lists in another order.

use zstn_tests::command::{json, text, zstn};
use zstn_tests::rng::Rng;

use crate::folder_with;

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
