//! The JSON output of all commands, servers included, uses one vocabulary, which the
//! schemas describe.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use zstn_tests::command::{KillOnDrop, json, program, text, zstn};
use zstn_tests::rng::Rng;
use zstn_tests::{repository, schema, with_header};

/// Creates a checkpoint, a fine-tune of it, and a folder with a checkpoint.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("model")).unwrap();
    let weights = Rng(3).bf16_weights(20_000);
    for (name, byte) in [("a", 1), ("tuned", 2), ("model/model", 3)] {
        let header = r#"{"w":{"dtype":"BF16","shape":[200,100],"data_offsets":[0,40000]},
            "x":{"dtype":"U8","shape":[1],"data_offsets":[40000,40001]}}"#;
        let file = with_header(header, [&weights[..], &[byte]].concat());
        std::fs::write(folder.path().join(format!("{name}.safetensors")), file).unwrap();
    }
    std::fs::write(folder.path().join("model/config.json"), "{}").unwrap();
    folder
}

fn report(folder: &Path, line: &str) -> Value {
    json(&zstn(folder, &line.split(' ').collect::<Vec<_>>()))
}

/// Returns the JSON objects that a command prints.
fn reports(folder: &Path, line: &str) -> Vec<Value> {
    let out = zstn(folder, &line.split(' ').collect::<Vec<_>>());
    assert!(out.status.success(), "{line}: {}", text(&out.stderr));
    let printed = text(&out.stdout);
    let objects = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    objects.collect()
}

/// Adds the keys of all objects in `value`, except for names of tensors, dtypes and
/// metadata.
fn collect(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                keys.insert(key.clone());
                match key.as_str() {
                    "by_dtype" => value
                        .as_object()
                        .unwrap()
                        .values()
                        .for_each(|total| collect(total, keys)),
                    "metadata" => {}
                    _ => collect(value, keys),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, keys)),
        _ => {}
    }
}

/// Adds the keys of all objects that a schema describes.
///
/// # Panics
/// If a key has no description.
fn collect_described(schema: &Value, keys: &mut BTreeSet<String>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (key, property) in properties {
            assert!(property["description"].is_string(), "{key}: {property}");
            keys.insert(key.clone());
        }
    }
    match schema {
        Value::Object(members) => members
            .values()
            .for_each(|member| collect_described(member, keys)),
        Value::Array(items) => items.iter().for_each(|item| collect_described(item, keys)),
        _ => {}
    }
}

/// Commands that print JSON, in every variant that leads to different keys.
const LINES: [&str; 24] = [
    "pack a.safetensors",
    "pack tuned.safetensors --base a.zstn",
    "pack model",
    "pack tuned.safetensors -o auto.z4dm --base auto --family . --save-sketches",
    "unpack a.zstn -o back",
    "unpack model-zstn -o back-model",
    "verify a.zstn --against a.safetensors",
    "ls a.zstn --stats",
    "ls tuned.z4dm",
    "info tuned.z4dm --base a.zstn",
    "info a.zstn",
    "info a.zstn --gpu",
    "info a.safetensors",
    "get a.zstn w",
    "get a.zstn w --rows 1..3 -o rows.bin",
    "convert a.zstn -o a.gauss --lossy --raw-threshold 1 --as-signed",
    "info a.gauss",
    "convert a.zstn -o sparse/",
    "compress a.safetensors",
    "decompress a.safetensors.z4ai -o frame",
    "ls a.zstn --name w --sort ratio",
    "get a.zstn [wx] -o both.safetensors",
    "bench a.safetensors --runs 1",
    "bench --files a.safetensors --runs 1",
];

#[test]
fn every_key_is_documented_and_every_documented_key_exists() {
    let folder = folder();
    let mut keys = BTreeSet::new();
    let is_linux = cfg!(target_os = "linux");
    for line in LINES {
        // Only Linux reports what this measures.
        if line.contains("--files") && !is_linux {
            continue;
        }
        for report in reports(folder.path(), &format!("{line} --json")) {
            // Every command describes its input with the same keys.
            for key in ["input", "original_bytes", "packed_bytes"] {
                assert!(!report[key].is_null(), "{line} has no {key}: {report}");
            }
            schema::check(line.split(' ').next().unwrap(), &report);
            collect(&report, &mut keys);
        }
    }
    let compared = zstn(folder.path(), &["diff", "a.zstn", "tuned.z4dm", "--json"]);
    let compared = serde_json::from_slice(&compared.stdout).unwrap();
    schema::check("diff", &compared);
    collect(&compared, &mut keys);
    let sketched = report(folder.path(), "sketch a.zstn -o s --json");
    schema::check("sketch", &sketched);
    collect(&sketched, &mut keys);
    // A separate repository, which has settings to print.
    let git = ["init", "--quiet", "."];
    let mut made = Command::new("git");
    made.args(git).current_dir(folder.path());
    assert!(made.status().unwrap().success());
    assert!(zstn(folder.path(), &["lfs", "install"]).status.success());
    let status = report(folder.path(), "lfs status --json");
    schema::check("lfs-status", &status);
    collect(&status, &mut keys);
    for line in ["ls missing --json", "ls a.zstn --name y --json"] {
        let out = zstn(folder.path(), &line.split(' ').collect::<Vec<_>>());
        let error = serde_json::from_slice(&out.stderr).unwrap();
        schema::check("error", &error);
        collect(&error, &mut keys);
    }
    let mut documented = BTreeSet::new();
    for entry in std::fs::read_dir(repository().join("docs/schema")).unwrap() {
        let path = entry.unwrap().path();
        let schema = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let mut described = BTreeSet::new();
        collect_described(&schema, &mut described);
        if path.ends_with("bench.json") && !is_linux {
            keys.extend(described.iter().cloned());
        }
        // The output of servers is tested with the servers.
        let servers = ["gateway", "serve", "view", "worker"];
        if !servers.contains(&path.file_stem().unwrap().to_str().unwrap()) {
            documented.append(&mut described);
        }
    }
    // Only an upload to an object store has these keys.
    keys.extend(["parts_sent", "parts_reused"].map(String::from));
    // Only `bench --device` has these keys, which needs a GPU.
    keys.extend(["device", "load_plain_seconds"].map(String::from));
    keys.extend(["load_packed_seconds", "cpu_tensors"].map(String::from));
    assert_eq!(keys, documented);
}

#[test]
fn lengths_mean_the_same_in_every_report() {
    let folder = folder();
    let len = |name: &str| folder.path().join(name).metadata().unwrap().len();
    let report = |line: &str| report(folder.path(), line);
    let packed = report("pack a.safetensors --json");
    for line in [
        "unpack a.zstn -o b --json",
        "verify a.zstn --json",
        "info a.zstn --json",
        "ls a.zstn --json",
    ] {
        let report = report(line);
        assert_eq!(report["original_bytes"], len("a.safetensors"), "{line}");
        assert_eq!(report["packed_bytes"], len("a.zstn"), "{line}");
        assert_eq!(report["original_bytes"], packed["original_bytes"]);
        assert_eq!(report["packed_bytes"], packed["packed_bytes"]);
    }
    let list = report("ls a.zstn --json");
    let got = report("get a.zstn w --json");
    let tensors = list["tensors"].as_array().unwrap();
    let listed = tensors.iter().find(|tensor| tensor["name"] == "w").unwrap();
    assert_eq!(listed["original_bytes"], 40_000);
    for key in ["original_bytes", "packed_bytes", "dtype", "shape"] {
        assert_eq!(listed[key], got[key], "{key}");
    }
    assert_eq!(got["fetched_bytes"], got["packed_bytes"]);
}

#[test]
fn info_counts_the_tensors_that_a_gpu_decodes() {
    let folder = folder();
    report(folder.path(), "pack a.safetensors --json");
    let packed = report(folder.path(), "info a.zstn --gpu --json");
    let plain = report(folder.path(), "info a.safetensors --gpu --json");
    assert_eq!(plain["gpu_tensors"], plain["tensors"]);
    let (by_gpu, all) = (packed["gpu_bytes"].as_u64(), plain["gpu_bytes"].as_u64());
    assert!(by_gpu > Some(0) && by_gpu <= all, "{packed} {plain}");
    let text = text(&zstn(folder.path(), &["info", "a.zstn", "--gpu"]).stdout);
    let line = text.lines().find(|line| line.starts_with("by a GPU"));
    assert!(
        line.is_some_and(|line| line.contains("tensors, ")),
        "{text}"
    );
}

#[test]
fn wrong_usage_is_json_as_well() {
    let folder = folder();
    for (line, part) in [
        ("pack --json", "required"),
        ("pack a.safetensors --json --effort huge", "possible values"),
        ("pakc --json", "pakc"),
        ("unpack a.safetensors --json -o x", "not a packed one"),
        ("convert a.safetensors --json", "-o"),
        ("bench a.safetensors --json --device tpu", "cuda:1"),
        // There is no such GPU, and most machines have no driver.
        ("bench a.safetensors --json --device cuda:65535", "cannot"),
    ] {
        let out = zstn(folder.path(), &line.split(' ').collect::<Vec<_>>());
        assert_eq!(out.status.code(), Some(2), "{line}");
        assert!(out.stdout.is_empty());
        let error: Value = serde_json::from_slice(&out.stderr)
            .unwrap_or_else(|_| panic!("{line}: {}", text(&out.stderr)));
        assert_eq!(error["error"]["kind"], "usage", "{line}");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains(part), "{line}: {message}");
    }
    // A file named `--json` is not the option.
    let out = zstn(folder.path(), &["pack", "--", "--json"]);
    assert!(
        text(&out.stderr).starts_with("error: "),
        "{}",
        text(&out.stderr)
    );
    let help = zstn(folder.path(), &["pack", "--help", "--json"]);
    assert!(help.status.success());
}

#[test]
fn every_verb_with_json_has_a_schema() {
    let folder = folder();
    let help = text(&zstn(folder.path(), &["--help"]).stdout);
    let verbs = help.split("Commands:").nth(1).unwrap();
    let verbs = verbs.split("Options:").next().unwrap();
    let verbs = verbs.lines().filter_map(|line| line.strip_prefix("  "));
    let verbs = verbs.filter(|line| !line.starts_with(' '));
    let mut with_json = 0;
    for verb in verbs.filter_map(|line| line.split(' ').next()) {
        let help = text(&zstn(folder.path(), &[verb, "--help"]).stdout);
        if help.contains("--json") {
            let schema = repository().join(format!("docs/schema/{verb}.json"));
            assert!(schema.exists(), "{verb}");
            with_json += 1;
        }
    }
    assert!(with_json > 12, "{with_json}");
}

/// Starts a server, sends it a request, and checks the lines for its address and for
/// the request against the schema of the command.
fn check(folder: &Path, verb: &str, arguments: &[&str]) {
    let mut child = Command::new(program())
        .args([verb, "--json", "--port", "0"])
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let _running = KillOnDrop(child);
    let mut line = || -> Value {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{verb}: {line:?}"))
    };
    let listening = line();
    schema::check(verb, &listening);
    let url = listening["url"].as_str().unwrap();
    let (address, path) = url["http://".len()..].split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let path = path.split('#').next().unwrap();
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nHost: {address}\r\nRange: bytes=0-3\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let request = line();
    schema::check(verb, &request);
    assert_eq!(request["event"], "request", "{verb}");
    assert_eq!(request["method"], "GET", "{verb}");
}

#[test]
fn lines_of_servers_are_as_their_schemas_say() {
    let folder = crate::folder_with("model.zstn", &crate::vector("all_dtypes.zstn"));
    std::fs::create_dir(folder.path().join("page")).unwrap();
    std::fs::write(folder.path().join("page/index.html"), "<!doctype html>").unwrap();
    check(folder.path(), "serve", &[]);
    check(folder.path(), "gateway", &["--upstream", "."]);
    check(
        folder.path(),
        "view",
        &["--no-open", "--page", "page", "model.zstn"],
    );
}
