//! Each command once, as a user would type it; the exit status and the message of every
//! refusal; shell completions and manual pages.

use std::process::{Command, Stdio};

use zstn_tests::command::{json, program, text, zstn};
use zstn_tests::rng::Rng;

use super::{folder_with, vector};

#[test]
fn a_packed_gguf_model_in_several_files_has_the_metadata_of_the_plain_one() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    for (name, bytes) in zstn_tests::gguf::three_parts() {
        std::fs::write(folder.path().join("in").join(name), bytes).unwrap();
    }
    let run = |line: &str| {
        let out = super::run(folder.path(), line);
        assert!(out.status.success(), "{line}: {}", text(&out.stderr));
        out
    };
    run("pack in");
    let [plain, packed] = [
        "in/m-00001-of-00003.gguf",
        "in-zstn/m-00001-of-00003.gguf.zstn",
    ]
    .map(|name| json(&run(&format!("info {name} --json"))));
    assert_eq!(packed["metadata"], plain["metadata"]);
    assert_eq!(plain["metadata"]["split.no"], "0");
    assert_eq!(packed["tensors"], 4);
}

#[test]
fn extensions_in_capitals_count_and_are_kept() {
    let original = zstn_tests::cases::read("gguf", "k-blocks.gguf");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("in")).unwrap();
    std::fs::write(at("in/MODEL.GGUF"), &original).unwrap();
    std::fs::write(at("in/README.md"), "a model").unwrap();
    let run = |line: &str| {
        let out = super::run(folder.path(), line);
        assert!(out.status.success(), "{line}: {}", text(&out.stderr));
        out
    };
    let plain = run("ls in").stdout;
    run("convert in -o X.SAFETENSORS");
    run("verify X.SAFETENSORS --against in");
    run("pack in");
    assert!(at("in-zstn/MODEL.GGUF.zstn").exists());
    let names = |list: &[u8]| -> Vec<String> {
        let list = text(list);
        let names = list.lines().filter_map(|line| line.split(' ').next());
        names.map(str::to_owned).collect()
    };
    assert_eq!(names(&run("ls in-zstn").stdout), names(&plain));
    std::fs::remove_dir_all(at("in")).unwrap();
    run("unpack in-zstn");
    assert!(std::fs::read(at("in/MODEL.GGUF")).unwrap() == original);
}

#[test]
fn a_file_of_another_format_keeps_its_whole_name() {
    let original = zstn_tests::cases::read("gguf", "k-blocks.gguf");
    let folder = folder_with("model.gguf", &original);
    let at = |name: &str| folder.path().join(name);
    let run = |arguments: &[&str]| {
        let out = zstn(folder.path(), arguments);
        assert!(out.status.success(), "{arguments:?}: {}", text(&out.stderr));
        out
    };
    let report = json(&run(&["pack", "model.gguf", "--json"]));
    assert_eq!(report["files"][0]["original_kind"], "gguf");
    assert!(report["files"][0]["refusal"].is_null());
    std::fs::rename(at("model.gguf"), at("original")).unwrap();
    run(&["verify", "model.gguf.zstn", "--against", "original"]);
    run(&["unpack", "model.gguf.zstn"]);
    assert!(std::fs::read(at("model.gguf")).unwrap() == original);
    let [packed, plain] = ["model.gguf.zstn", "model.gguf"].map(|name| {
        let list = json(&run(&["ls", name, "--json"]));
        let names = list["tensors"].as_array().expect("a list").iter();
        names
            .map(|tensor| tensor["name"].to_string())
            .collect::<std::collections::BTreeSet<_>>()
    });
    assert_eq!(packed, plain);
    let [packed, plain] = ["model.gguf.zstn", "model.gguf"].map(|name| {
        let info = json(&run(&["info", name, "--json"]));
        let by_dtype = &info["by_dtype"]["F32"];
        // 6 blocks of 256 values each: 84 bytes for Q2_K, 110, 144, 176 and 210 for Q6_K.
        assert_eq!(by_dtype["original_bytes"], 6 * (84 + 110 + 144 + 176 + 210));
        (
            info["metadata"].clone(),
            info["tensors"].clone(),
            by_dtype["elements"].clone(),
        )
    });
    assert_eq!(packed, plain);
    let listed = json(&run(&["ls", "model.gguf", "--json"]));
    assert_eq!(listed["original_bytes"], 4344);
    for tensor in listed["tensors"].as_array().expect("a list") {
        assert_eq!(tensor["original_bytes"], tensor["packed_bytes"], "{tensor}");
    }
    let name = plain_names(folder.path()).remove(0);
    let [packed, plain] =
        ["model.gguf.zstn", "model.gguf"].map(|file| run(&["get", file, &name, "-o", "-"]).stdout);
    assert!(packed == plain && !plain.is_empty());
    for file in ["model.gguf.zstn", "model.gguf"] {
        run(&["convert", file, "-o", &format!("{file}.safetensors")]);
    }
    let converted = ["model.gguf.zstn.safetensors", "model.gguf.safetensors"];
    run(&["verify", converted[0], "--against", converted[1]]);
    // Damage of the packed file is an error, although the tensors can still be listed.
    let mut damaged = std::fs::read(at("model.gguf.zstn")).unwrap();
    let info = json(&run(&["ls", "model.gguf.zstn", "--stored", "--json"]));
    assert_eq!(info["tensors"][0]["name"], "@bytes/0");
    let prefix = zstn_core::container::zstn::ContainerPrefix::parse(&damaged, damaged.len() as u64);
    let header = prefix.expect("a prefix").header;
    damaged[zstn_core::bytes::index(header.end) + 40] ^= 1;
    std::fs::write(at("damaged.zstn"), damaged).unwrap();
    for verb in [&["info"][..], &["convert", "-o", "x.safetensors"]] {
        let out = zstn(folder.path(), &[verb, &["damaged.zstn"]].concat());
        assert_eq!(
            out.status.code(),
            Some(1),
            "{verb:?}: {}",
            text(&out.stdout)
        );
        assert!(
            text(&out.stderr).contains("checksum"),
            "{}",
            text(&out.stderr)
        );
    }
    // A file that zstn cannot read is packed as bytes.
    std::fs::write(at("notes.txt"), "some notes\n").unwrap();
    let packed = run(&["pack", "notes.txt"]);
    assert!(
        text(&packed.stderr).contains("was packed as bytes"),
        "{}",
        text(&packed.stderr)
    );
    std::fs::remove_file(at("notes.txt")).unwrap();
    run(&["unpack", "notes.txt.zstn"]);
    assert_eq!(
        std::fs::read_to_string(at("notes.txt")).unwrap(),
        "some notes\n"
    );
}

/// Returns the names of the tensors of `model.gguf`.
fn plain_names(folder: &std::path::Path) -> Vec<String> {
    let reader = zstn::Reader::open(folder.join("model.gguf")).expect("opened");
    reader.names().map(String::from).collect()
}

#[test]
fn pack_unpack_verify_ls_info_get() {
    let original = vector("tiny_llama_tied.safetensors");
    let folder = folder_with("model.safetensors", &original);
    let at = |name: &str| folder.path().join(name);

    let packed = zstn(folder.path(), &["pack", "model.safetensors", "--json"]);
    let report = json(&packed);
    assert_eq!(report["original_bytes"], original.len() as u64);
    assert_eq!(report["files"][0]["aliased_tensors"], 2);
    assert_eq!(
        report["packed_bytes"],
        std::fs::metadata(at("model.zstn")).unwrap().len()
    );

    let out = zstn(
        folder.path(),
        &["unpack", "model.zstn", "-o", "back.safetensors"],
    );
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(std::fs::read(at("back.safetensors")).unwrap() == original);

    let verified = json(&zstn(
        folder.path(),
        &[
            "verify",
            "model.zstn",
            "--against",
            "model.safetensors",
            "--json",
        ],
    ));
    assert_eq!(
        (&verified["ok"], &verified["compared"]),
        (&true.into(), &true.into())
    );

    let list = json(&zstn(folder.path(), &["ls", "model.zstn", "--json"]));
    let plain = json(&zstn(folder.path(), &["ls", "model.safetensors", "--json"]));
    let names = |list: &serde_json::Value| -> Vec<String> {
        let tensors = list["tensors"].as_array().expect("a list");
        tensors.iter().map(|t| t["name"].to_string()).collect()
    };
    assert_eq!(names(&list), names(&plain));
    let table = text(&zstn(folder.path(), &["ls", "model.zstn"]).stdout);
    assert_eq!(table.lines().count(), names(&list).len() + 1);

    let info = json(&zstn(folder.path(), &["info", "model.zstn", "--json"]));
    assert_eq!(
        (&info["kind"], &info["aliased_tensors"]),
        (&"zstn".into(), &2.into())
    );

    let name = list["tensors"][0]["name"].as_str().expect("a name");
    let out = zstn(folder.path(), &["get", "model.zstn", name, "-o", "w.bin"]);
    assert!(out.status.success());
    let out = zstn(
        folder.path(),
        &["get", "model.safetensors", name, "-o", "-"],
    );
    assert!(std::fs::read(at("w.bin")).unwrap() == out.stdout);
    let out = zstn(
        folder.path(),
        &["get", "model.zstn", name, "-o", "w.safetensors"],
    );
    assert!(out.status.success());
    let one = json(&zstn(folder.path(), &["ls", "w.safetensors", "--json"]));
    assert_eq!(one["tensors"][0]["dtype"], list["tensors"][0]["dtype"]);
    assert_eq!(one["tensors"][0]["shape"], list["tensors"][0]["shape"]);
}

#[test]
fn derived_names_never_replace_a_file() {
    let original = vector("scalars.safetensors");
    let folder = folder_with("m.safetensors", &original);
    assert!(
        zstn(folder.path(), &["pack", "m.safetensors"])
            .status
            .success()
    );
    // Unpacking in the same folder would replace the original.
    let out = zstn(folder.path(), &["unpack", "m.zstn"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("--force"));
    assert!(
        zstn(folder.path(), &["unpack", "m.zstn", "--force"])
            .status
            .success()
    );
    assert!(std::fs::read(folder.path().join("m.safetensors")).unwrap() == original);
}

#[test]
fn pipes_work_both_ways() {
    let original = vector("scalars.safetensors");
    let folder = folder_with("m.safetensors", &original);
    let run = |arguments: &[&str], input: &[u8]| {
        let mut child = Command::new(program())
            .args(arguments)
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("zstn runs");
        std::io::Write::write_all(&mut child.stdin.take().expect("piped"), input).expect("written");
        child.wait_with_output().expect("zstn ends").stdout
    };
    let packed = run(&["pack", "-", "--quiet"], &original);
    assert!(packed.starts_with(b"ZSTN"));
    assert!(run(&["unpack", "-", "--quiet"], &packed) == original);
}

#[test]
fn bench_reports_what_it_measured() {
    let folder = folder_with("m.safetensors", &vector("float_weights.safetensors"));
    for effort in ["fast", "balanced", "max"] {
        let report = json(&zstn(
            folder.path(),
            &[
                "bench",
                "m.safetensors",
                "--effort",
                effort,
                "--threads",
                "2",
                "--runs",
                "1",
                "--json",
            ],
        ));
        assert!(
            report["packed_bytes"]
                .as_u64()
                .is_some_and(|b| b > 50_000 && b < 98_584)
        );
        assert!(report["pack_seconds"].as_f64().is_some_and(|s| s > 0.0));
        assert!(report["unpack_seconds"].as_f64().is_some_and(|s| s > 0.0));
    }
}

/// Only Linux reports the times of threads.
#[cfg(target_os = "linux")]
#[test]
fn bench_of_files_reports_every_verb_and_leaves_no_file() {
    const LEN: u64 = 8 << 20;
    let folder = tempfile::tempdir().unwrap();
    let line = "bench --files --size 8M --work . --runs 1 --threads 2";
    let words: Vec<&str> = line.split(' ').collect();
    let table = zstn(folder.path(), &words);
    assert!(table.status.success(), "{}", text(&table.stderr));
    let report = json(&zstn(folder.path(), &[&words[..], &["--json"]].concat()));
    let packed = report["packed_bytes"].as_u64().unwrap();
    // Reads and writes in bytes: packing reads the original once; the other verbs read
    // the packed file to check its frames, then again to decode them.
    let expected = [
        ("pack", LEN, packed),
        ("pack --sha256", LEN, packed),
        ("unpack", 2 * packed, LEN),
        ("verify", 2 * packed, 0),
        ("verify --fast", 2 * packed, 0),
    ];
    let verbs = report["verbs"].as_array().unwrap();
    assert_eq!(verbs.len(), expected.len());
    for (verb, (name, read, written)) in verbs.iter().zip(expected) {
        assert_eq!(verb["verb"], name);
        assert!(text(&table.stdout).contains(name));
        let number = |key: &str| verb[key].as_f64().unwrap();
        for (key, expected) in [("read_bytes", read), ("written_bytes", written)] {
            let rest = number(key) - expected as f64;
            assert!(rest.abs() < 500e3, "{key} {expected}: {verb}");
        }
        assert!(number("seconds") > 0.0);
        assert!(number("serial_seconds") <= number("processor_seconds") + 1e-3);
        let shares = ["running", "queued", "waiting"].map(|name| format!("workers_{name}"));
        let sum: f64 = shares.iter().map(|key| number(key)).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{verb}");
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn bench_of_files_refuses_a_disk_that_is_too_small() {
    let folder = tempfile::tempdir().unwrap();
    let line = "bench --files --size 1000000T --work .";
    let out = zstn(folder.path(), &line.split(' ').collect::<Vec<_>>());
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("choose another folder with --work"));
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn frames_compress_and_decompress() {
    let weights = Rng(13).bf16_weights(40_000);
    let folder = folder_with("w.bin", &weights);
    let at = |name: &str| folder.path().join(name);
    let report = json(&zstn(
        folder.path(),
        &["compress", "w.bin", "--dtype", "bfloat16", "--json"],
    ));
    assert!(report["packed_bytes"].as_u64().is_some_and(|b| b < 58_000));
    assert!(
        std::fs::read(at("w.bin.z4ai"))
            .unwrap()
            .starts_with(b"Z4AI")
    );
    let out = zstn(folder.path(), &["decompress", "w.bin.z4ai", "-o", "back"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(std::fs::read(at("back")).unwrap() == weights);
    // The derived output name is the original's, which is not replaced.
    assert_eq!(
        zstn(folder.path(), &["decompress", "w.bin.z4ai"])
            .status
            .code(),
        Some(2)
    );
    let out = zstn(
        folder.path(),
        &["decompress", "w.bin.z4ai", "-o", "x", "--limit", "1K"],
    );
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("limit"));
}

#[test]
fn exit_status_and_sentences() {
    let folder = folder_with(
        "page.html",
        b"<!doctype html><title>Not found</title> and more text",
    );
    let at = |name: &str| folder.path().join(name);
    let packed = vector("float_weights.zstn");
    std::fs::write(at("cut.zstn"), &packed[..packed.len() - 1000]).unwrap();
    std::fs::write(at("good.zstn"), &packed).unwrap();
    std::fs::write(at("other.safetensors"), vector("scalars.safetensors")).unwrap();
    std::fs::write(at("frame.z4ai"), b"Z4AI\x01\0\0\x01\x01\0\0\0").unwrap();
    std::fs::write(at("empty"), b"").unwrap();
    std::fs::write(at("a.sketch"), b"ZSTNSKCH\x01\0\0\0\0\0\0\0").unwrap();
    for (arguments, status, sentence) in [
        (&["unpack", "cut.zstn", "-o", "x"][..], 1, "looks cut off"),
        (&["ls", "cut.zstn"], 1, "looks cut off"),
        (&["ls", "page.html"], 1, "web page"),
        (&["pack", "page.html"], 1, "web page"),
        (&["info", "empty"], 1, "empty"),
        (&["unpack", "missing.zstn"], 3, "missing.zstn"),
        (
            &["unpack", "other.safetensors", "-o", "x"],
            2,
            "not a packed one",
        ),
        (&["pack", "good.zstn", "-o", "x"], 2, "already packed"),
        (&["pack", "good.zstn"], 2, "already packed"),
        (&["unpack", "other.safetensors"], 2, "not a packed one"),
        (
            &["pack", "other.safetensors", "--base", "other.safetensors"],
            2,
            "is its own base",
        ),
        (
            &["unpack", "good.zstn", "new.safetensors"],
            2,
            "write -o new.safetensors",
        ),
        (&["info", "a.sketch"], 1, "this is a sketch"),
        (&["get", "other.safetensors"], 2, "name one or several"),
        (
            &[
                "diff",
                "good.zstn",
                "other.safetensors",
                "--base",
                "good.zstn",
            ],
            2,
            "leave out the base",
        ),
        (&["get", "good.zstn", "nope"], 2, "no tensor named `nope`"),
        (&["ls", "frame.z4ai"], 1, "decompress it"),
        (
            &["verify", "good.zstn", "--against", "other.safetensors"],
            1,
            "restores",
        ),
        (&["pack"], 2, "Usage"),
        (
            &["pack", "other.safetensors", "-T", "100000"],
            2,
            "too many threads: at most",
        ),
        (
            &[
                "verify",
                "good.zstn",
                "--threads",
                "99999999999999999999999",
            ],
            2,
            "too many threads: at most",
        ),
        (
            &["unpack", "good.zstn", "-T", "-1"],
            2,
            "the number of threads is negative; give 0",
        ),
        (
            &["get", "good.zstn", "nope", "-T", "many"],
            2,
            "a whole number is needed",
        ),
        (
            &["pack", "other.safetensors", "--effort", "huge"],
            2,
            "possible values",
        ),
        (
            &["pack", "other.safetensors", "--memory", "lots"],
            2,
            "512M",
        ),
        (
            &["pack", "other.safetensors", "--memory", "1M"],
            2,
            "at least",
        ),
        (
            &["ls", "http://127.0.0.1:9/model.zstn"],
            3,
            "cannot be reached",
        ),
    ] {
        let out = zstn(folder.path(), arguments);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(sentence), "{arguments:?} says: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    assert!(!at("x").exists(), "a refusal leaves no output");
    let out = zstn(folder.path(), &["ls", "cut.zstn", "--json"]);
    let error: serde_json::Value = serde_json::from_slice(&out.stderr).expect("JSON");
    assert_eq!(error["error"]["kind"], "malformed");
    assert!(
        error["error"]["rule"]
            .as_str()
            .is_some_and(|r| r.starts_with("zstn."))
    );
}

// Windows may have a bash that belongs to another system and shares its folders.
#[cfg(unix)]
#[test]
fn bash_completes_verbs_options_and_values() {
    use std::process::Command;

    let folder = tempfile::tempdir().unwrap();
    let script = zstn(folder.path(), &["completions", "bash"]);
    assert!(script.status.success());
    let path = folder.path().join("completions");
    std::fs::write(&path, &script.stdout).unwrap();
    let complete = |words: &str, count: usize| {
        let mut back = words.rsplit(' ');
        let (last, before) = (back.next().unwrap(), back.next().unwrap());
        let line = format!(
            "source ./completions; COMP_WORDS=({words}); COMP_CWORD={count}; \
             _zstn zstn '{last}' '{before}'; echo \"${{COMPREPLY[@]}}\""
        );
        let out = Command::new("bash")
            .args(["--norc", "-c", &line])
            .current_dir(folder.path())
            .output();
        let out = out.expect("bash runs");
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stdout).trim().to_owned()
    };
    assert_eq!(complete("zstn unp", 1), "unpack");
    assert_eq!(complete("zstn pack --exten", 2), "--extended");
    assert_eq!(complete("zstn pack --effort m", 3), "max");
    assert_eq!(complete("zstn lfs inst", 2), "install");
}

#[test]
fn every_shell_has_completions() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, mark) in [
        ("bash", "complete -F _zstn"),
        ("zsh", "#compdef zstn"),
        ("fish", "complete -c zstn"),
        ("elvish", "edit:completion"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let out = zstn(folder.path(), &["completions", shell]);
        assert!(out.status.success(), "{shell}");
        let script = text(&out.stdout);
        assert!(script.contains(mark), "{shell}");
        assert!(script.contains("extended"), "{shell}");
    }
    let out = zstn(folder.path(), &["completions", "dash"]);
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn there_is_a_manual_page_for_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let out = zstn(folder.path(), &["man", "-o", "man1"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let read = |name: &str| {
        let path = folder.path().join("man1").join(name);
        std::fs::read_to_string(path).unwrap_or_else(|_| panic!("there is no {name}"))
    };
    let first = text(&zstn(folder.path(), &["man"]).stdout);
    assert_eq!(read("zstn.1"), first);
    let verbs: Vec<&str> = first
        .lines()
        .filter_map(|line| line.strip_prefix("zstn\\-")?.strip_suffix("(1)"))
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() > 15, "{first}");
    for verb in verbs {
        let page = read(&format!("zstn-{verb}.1"));
        assert!(page.contains("Examples:"), "{verb}");
        assert!(page.contains(&format!("zstn {verb}")), "{verb}: {page}");
    }
    assert!(read("zstn-lfs-install.1").contains("extended"));
}
