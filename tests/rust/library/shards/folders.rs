//! Folders with subfolders are restored with the same structure, also with the command
//! line.

use std::fs;
use std::path::MAIN_SEPARATOR_STR;

use zstn_tests::checkpoint;
#[cfg(unix)]
use zstn_tests::command::is_ignored;
#[cfg(unix)]
use zstn_tests::command::program;
use zstn_tests::command::{json, text, zstn};

use super::*;

fn weights(seed: u64) -> Vec<u8> {
    checkpoint(&[("w", "BF16", &Rng(seed).bf16_weights(3000))])
}

/// Returns the files of a diffusion pipeline: no checkpoint at the top level and
/// several below it, one of them sharded and one two levels down.
fn pipeline(seed: u64) -> Files {
    let mut files = Files::new();
    for (name, bytes) in model(seed > 0) {
        files.insert(format!("text_encoder/{name}"), bytes);
    }
    for (path, bytes) in [
        ("model_index.json", b"{}".to_vec()),
        (".gitattributes", b"*.bin filter=lfs".to_vec()),
        (".cache/huggingface/.gitignore", b"*".to_vec()),
        ("unet/config.json", b"{}".to_vec()),
        (
            "unet/diffusion_pytorch_model.safetensors",
            weights(seed + 1),
        ),
        (
            "unet/diffusion_pytorch_model.fp16.safetensors",
            weights(seed + 2),
        ),
        ("vae/decoder/m.safetensors", weights(seed + 3)),
        ("onnx/model.onnx", Rng(seed).bytes(500)),
    ] {
        files.insert(path.into(), bytes);
    }
    files
}

/// Returns every file and every empty folder below a folder, by path with slashes.
pub(super) fn tree(folder: &Path) -> Files {
    let mut files = Files::new();
    let mut pending = vec![folder.to_path_buf()];
    while let Some(next) = pending.pop() {
        let entries: Vec<_> = fs::read_dir(&next).unwrap().flatten().collect();
        let name = |path: &Path| {
            let path = path.strip_prefix(folder).unwrap();
            path.display().to_string().replace(MAIN_SEPARATOR_STR, "/")
        };
        if entries.is_empty() {
            files.insert(format!("{}/", name(&next)), Vec::new());
        }
        for entry in entries {
            match entry.path().is_dir() {
                true => pending.push(entry.path()),
                false => {
                    files.insert(name(&entry.path()), fs::read(entry.path()).unwrap());
                }
            }
        }
    }
    files
}

pub(super) fn plant(folder: &Path, files: &Files) {
    for (path, bytes) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Runs a command that must succeed.
pub(super) fn run(folder: &Path, arguments: &[&str]) {
    let out = zstn(folder, arguments);
    assert!(out.status.success(), "{arguments:?}: {}", text(&out.stderr));
}

#[test]
fn a_pipeline_comes_back_as_the_same_tree() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let files = pipeline(0);
    plant(&at("model"), &files);
    fs::create_dir(at("model/empty")).unwrap();
    let whole = tree(&at("model"));

    let report = json(&zstn(scratch.path(), &["pack", "model", "--json"]));
    let packed = tree(&at("model-zstn"));
    let is_plain = |path: &&String| path.ends_with(".safetensors");
    assert_eq!(packed.keys().find(is_plain), None, "all are packed");
    assert_eq!(report["files"].as_array().unwrap().len(), 6);
    assert_eq!(report["folder"]["left_out"], serde_json::json!([]));
    let outputs: Vec<&Path> = report["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|shard| Path::new(shard["output"].as_str().unwrap()))
        .collect();
    let deep = Path::new("vae/decoder/m.zstn");
    assert!(outputs.contains(&deep), "{outputs:?}");

    let verify = ["verify", "model-zstn", "--against", "model", "--json"];
    let report = json(&zstn(scratch.path(), &verify));
    assert_eq!(report["files"].as_array().unwrap().len(), 6);
    run(scratch.path(), &["unpack", "model-zstn", "-o", "back"]);
    assert!(tree(&at("back")) == whole);

    // Changes one byte of the original in a subfolder.
    let path = at("model/vae/decoder/m.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let out = zstn(scratch.path(), &verify);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
}

#[test]
fn a_pipeline_against_a_base_plain_or_packed() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    plant(&at("base"), &pipeline(0));
    let mut tuned = pipeline(0);
    let unet = "unet/diffusion_pytorch_model.safetensors";
    *tuned.get_mut(unet).unwrap().last_mut().unwrap() ^= 1;
    plant(&at("tuned"), &tuned);
    run(scratch.path(), &["pack", "base"]);
    for (base, packed, back) in [("base", "a", "b"), ("base-zstn", "c", "d")] {
        let pack = ["pack", "tuned", "--base", base, "-o", packed];
        run(scratch.path(), &pack);
        assert!(at(packed).join("vae/decoder/m.z4dm").is_file());
        let unpack = ["unpack", packed, "--base", base, "-o", back];
        run(scratch.path(), &unpack);
        assert!(tree(&at(back)) == tuned);
    }
    assert!(tree(&at("a")) == tree(&at("c")), "the base is the same");
    // The base lacks one of the files.
    fs::remove_file(at("base/vae/decoder/m.safetensors")).unwrap();
    let out = zstn(
        scratch.path(),
        &["pack", "tuned", "--base", "base", "-o", "x"],
    );
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    let missing: PathBuf = ["vae", "decoder", "m.safetensors"].iter().collect();
    assert!(text(&out.stderr).contains(&*missing.to_string_lossy()));
    assert!(!at("x").exists());
}

#[test]
fn a_checkpoint_at_the_top_and_others_below() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let mut files = model(false);
    files.insert("original/consolidated.00.safetensors".into(), weights(7));
    files.insert("adapter.safetensors".into(), weights(8));
    plant(&at("model"), &files);
    let report = pack(&at("model"), &at("packed")).unwrap();
    let others = rest(report);
    assert_eq!(others.index.as_deref(), Some("model.zstn.index.json"));
    assert!(others.copied.contains(&"adapter.safetensors".into()));
    assert!(at("packed/original/consolidated.00.zstn").is_file());
    unpack(&at("packed"), &at("back")).unwrap();
    assert!(tree(&at("back")) == files);
}

#[test]
fn packed_files_below_that_would_be_unpacked_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("model");
    let mut files = model(false);
    files.insert("old/m.zstn".into(), b"packed before".to_vec());
    plant(&folder, &files);
    let error = pack(&folder, &scratch.path().join("packed")).unwrap_err();
    let packed = Path::new("old").join("m.zstn");
    let said = error.to_string();
    assert!(said.contains(&*packed.to_string_lossy()), "{said}");
    assert_eq!(names(scratch.path()), ["model"]);
}

#[cfg(unix)]
#[test]
fn what_is_left_out_is_named_even_when_told_to_be_quiet() {
    use std::os::unix::fs::symlink;

    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("model");
    let mut files = model(false);
    files.insert(".git/lfs/objects/aa".into(), b"once more".to_vec());
    plant(&folder, &files);
    symlink("..", folder.join("round")).unwrap();
    symlink("nowhere", folder.join("dangling")).unwrap();
    let left_out = [".git", "dangling", "round"];
    let report = pack(&folder, &scratch.path().join("packed")).unwrap();
    assert_eq!(rest(report).left_out, left_out.map(PathBuf::from));
    for verb in ["pack", "unpack"] {
        let (input, output) = match verb {
            "pack" => ("model", "again"),
            _ => ("again", "back"),
        };
        let out = zstn(scratch.path(), &[verb, input, "-q", "-o", output]);
        assert!(out.status.success());
        let said = text(&out.stderr);
        match verb {
            "pack" => assert!(said.contains(".git, dangling, round"), "{said}"),
            _ => assert_eq!(said, "", "nothing is left out of what was packed"),
        }
    }
}

#[test]
fn the_command_line_names_and_reports() {
    let files = model(false);
    let (scratch, folder) = scratch(&files);
    let report = json(&zstn(scratch.path(), &["pack", "model", "--json"]));
    assert_eq!(report["output"], "model-zstn");
    assert_eq!(report["folder"]["index"], "model.zstn.index.json");
    assert_eq!(report["tensors"], 5);
    let shards = report["files"].as_array().unwrap();
    let sum = |key: &str| shards.iter().map(|s| s[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(report["original_bytes"], sum("original_bytes"));
    assert_eq!(report["packed_bytes"], sum("packed_bytes"));
    assert_eq!(shards[1]["input"], SECOND);
    assert_eq!(
        report["folder"]["copied_files"].as_array().unwrap().len(),
        2
    );

    let arguments = ["verify", "model-zstn", "--against", "model", "--json"];
    let verified = json(&zstn(scratch.path(), &arguments));
    assert_eq!(verified["indexed_tensors"], 4);
    assert_eq!(
        (&verified["ok"], &verified["compared"]),
        (&true.into(), &true.into())
    );

    // The default output name is the original's, which exists.
    let out = zstn(scratch.path(), &["unpack", "model-zstn", "--force"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("a folder is never replaced"));
    let report = json(&zstn(
        scratch.path(),
        &["unpack", "model-zstn", "-o", "back", "--json"],
    ));
    assert_eq!(report["files"][2]["output"], THIRD);
    assert!(read(&scratch.path().join("back")) == files);

    // Pack from inside the folder, and by the path of the index.
    let out = zstn(&folder, &["pack", ".", "--quiet"]);
    assert_eq!(out.status.code(), Some(2), "model-zstn is there already");
    let out = zstn(&folder, &["pack", INDEX]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("3 files"));
    assert_eq!(read(&folder.join("model-zstn")).len(), 5);
    fs::remove_dir_all(folder.join("model-zstn")).unwrap();

    write(&scratch.path().join("base"), &files);
    write(&folder, &model(true));
    let report = json(&zstn(
        scratch.path(),
        &["pack", "model", "--base", "base", "--json"],
    ));
    assert_eq!(
        (&report["output"], &report["files"][0]["differing_tensors"]),
        (&"model-z4dm".into(), &2.into())
    );
    for (arguments, status, sentence) in [
        (&["pack", "model-zstn"][..], 2, "no .safetensors file"),
        (
            &["pack", "model-zstn/model.zstn.index.json"],
            2,
            "already packed",
        ),
        (
            &["pack", "model", "-o", "-"],
            2,
            "cannot be written to a stream",
        ),
        (
            &["pack", "model", "-o", "x", "--base", "base/config.json"],
            1,
            "config.json",
        ),
        (&["unpack", "model"], 2, "no .zstn or .z4dm file"),
        (&["unpack", "model-z4dm"], 2, "--base"),
        (
            &["unpack", "gone.zstn.index.json"],
            3,
            "gone.zstn.index.json",
        ),
        (
            &["unpack", "base/model.safetensors.index.json"],
            2,
            "not packed",
        ),
        (
            &["verify", "model-zstn", "--against", "model"],
            1,
            "differs",
        ),
        (&["pack", "base", "--memory", "1M"], 2, "at least"),
    ] {
        let out = zstn(scratch.path(), arguments);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(sentence), "{arguments:?} says: {said}");
    }
    assert_eq!(
        names(scratch.path()),
        ["back", "base", "model", "model-z4dm", "model-zstn"]
    );
}

#[cfg(unix)]
#[test]
fn a_program_that_is_stopped_leaves_nothing() {
    use std::process::Command;
    use std::time::{Duration, Instant};

    if is_ignored(rustix::process::Signal::INT) {
        eprintln!("skipped: signals are ignored here");
        return;
    }
    let weights = Rng(5).bf16_weights(24 << 20);
    let halves = weights.split_at(weights.len() / 2);
    let mut files = Files::new();
    files.insert(FIRST.into(), checkpoint(&[("a", "BF16", halves.0)]));
    files.insert(SECOND.into(), checkpoint(&[("b", "BF16", halves.1)]));
    let index = format!("{{\"weight_map\":{{\"a\":\"{FIRST}\",\"b\":\"{SECOND}\"}}}}");
    files.insert(INDEX.into(), index.into_bytes());
    let (scratch, _) = scratch(&files);
    let mut child = Command::new(program())
        .args(["pack", "model", "--effort", "max", "--quiet"])
        .current_dir(scratch.path())
        .spawn()
        .expect("zstn runs");
    let started = Instant::now();
    while names(scratch.path()).len() == 1 {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "packing never began"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    let status = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(status.expect("kill runs").success());
    assert_eq!(child.wait().expect("ended").code(), Some(130));
    assert_eq!(names(scratch.path()), ["model"]);
}
