//! Creating, listing and restoring deltas between checkpoints.

use zstn_tests::command::{json, text, zstn};

use super::{folder_with, vector};

#[test]
fn deltas_pack_and_unpack_against_their_base() {
    let base = vector("md_two_percent.base.safetensors");
    let folder = folder_with("base.safetensors", &base);
    let at = |name: &str| folder.path().join(name);
    let target = vector("md_two_percent.target.safetensors");
    std::fs::write(at("tuned.safetensors"), &target).unwrap();
    let arguments = [
        "pack",
        "tuned.safetensors",
        "--base",
        "base.safetensors",
        "--json",
    ];
    let report = json(&zstn(folder.path(), &arguments));
    let ours = report["packed_bytes"].as_u64().expect("a size");
    assert!(ours < target.len() as u64 / 4, "{ours} bytes");
    let arguments = [
        "unpack",
        "tuned.z4dm",
        "--base",
        "base.safetensors",
        "-o",
        "back",
    ];
    let out = zstn(folder.path(), &arguments);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(std::fs::read(at("back")).unwrap() == target);
    std::fs::write(at("other.safetensors"), vector("scalars.safetensors")).unwrap();
    for (arguments, status, sentence) in [
        (&["unpack", "tuned.z4dm", "-o", "x"][..], 2, "--base"),
        (
            &[
                "unpack",
                "tuned.z4dm",
                "--base",
                "tuned.safetensors",
                "-o",
                "x",
            ],
            1,
            "made against",
        ),
        (&["verify", "tuned.z4dm"], 2, "--base"),
        (&["pack", "tuned.z4dm", "-o", "x"], 2, "packed already"),
        (
            &["get", "tuned.z4dm", "model.layers.0.mlp.down_proj.weight"],
            2,
            "as its base (with --base",
        ),
        (&["ls", "tuned.z4dm", "--base", "tuned.safetensors"], 0, ""),
        (
            &["ls", "base.safetensors", "--base", "tuned.safetensors"],
            2,
            "takes no base",
        ),
        (
            &["ls", "tuned.z4dm", "--base", "other.safetensors"],
            1,
            "missing from the base",
        ),
    ] {
        let out = zstn(folder.path(), arguments);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(sentence), "{arguments:?} says: {said}");
    }
}

#[test]
fn deltas_are_listed_and_read_with_their_base() {
    let folder = folder_with(
        "base.safetensors",
        &vector("md_all_dtypes.base.safetensors"),
    );
    let at = |name: &str| folder.path().join(name);
    std::fs::write(
        at("tuned.safetensors"),
        vector("md_all_dtypes.target.safetensors"),
    )
    .unwrap();
    std::fs::write(at("theirs.z4dm"), vector("md_all_dtypes.z4dm")).unwrap();
    for arguments in [
        &["pack", "tuned.safetensors", "--base", "base.safetensors"][..],
        &["pack", "base.safetensors"],
    ] {
        let out = zstn(folder.path(), arguments);
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    for (delta, base) in [
        ("tuned.z4dm", "base.safetensors"),
        ("tuned.z4dm", "base.zstn"),
        ("theirs.z4dm", "base.zstn"),
    ] {
        let list = json(&zstn(folder.path(), &["ls", delta, "--json"]));
        let tensors = list["tensors"].as_array().expect("a list").clone();
        assert_eq!(list["kind"], "z4dm");
        assert!(tensors.iter().any(|tensor| tensor["base"] == "copy"));
        assert!(tensors.iter().any(|tensor| tensor["base"].is_null()));
        // The list alternates between copied, differing and new tensors.
        for tensor in tensors.iter().step_by(5) {
            let name = tensor["name"].as_str().expect("a name");
            let read = zstn(
                folder.path(),
                &["get", delta, name, "--base", base, "-o", "-"],
            );
            assert!(read.status.success(), "{}", text(&read.stderr));
            let truth = zstn(
                folder.path(),
                &["get", "tuned.safetensors", name, "-o", "-"],
            );
            assert!(read.stdout == truth.stdout, "{delta} over {base}: {name}");
        }
        let info = json(&zstn(folder.path(), &["info", delta, "--json"]));
        let copied = tensors.iter().filter(|t| t["base"] == "copy").count();
        assert_eq!(info["copied_tensors"], copied);
        let verified = json(&zstn(
            folder.path(),
            &[
                "verify",
                delta,
                "--base",
                "base.safetensors",
                "--against",
                "tuned.safetensors",
                "--json",
            ],
        ));
        assert_eq!(verified["compared"], true);
    }
}
