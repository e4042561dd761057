//! Packing a remote file while it arrives.

use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use zstn::{CancelToken, Engine, Error, Job, Location, PackOptions};
use zstn_tests::checkpoint;
use zstn_tests::command::{program, text};
use zstn_tests::fault_server::{FaultServer, Served, Then, begin, drip, right, right_parts};
use zstn_tests::rng::Rng;
use zstn_tests::round_server::{Page, RoundServer};

use crate::cancelled;

/// Returns a checkpoint of 18 MiB that arrives in several pieces, with one alias.
fn model() -> Vec<u8> {
    let mut rng = Rng(7);
    let weights: Vec<_> = (0..9).map(|_| rng.bf16_weights(1 << 20)).collect();
    let names: Vec<_> = (0..9).map(|number| format!("layer.{number}")).collect();
    let mut tensors: Vec<_> = names
        .iter()
        .zip(&weights)
        .map(|(name, bytes)| (name.as_str(), "BF16", bytes.as_slice()))
        .collect();
    tensors[8].2 = &weights[3];
    checkpoint(&tensors)
}

fn serve(behaviour: impl zstn_tests::fault_server::Behaviour) -> FaultServer {
    let served = Served {
        bytes: model(),
        other: Vec::new(),
    };
    FaultServer::start(served, behaviour)
}

/// Packs without a folder for temporary files.
fn pack(folder: &TempDir, arguments: &[&str]) {
    let out = Command::new(program())
        .arg("pack")
        .args(arguments)
        .current_dir(folder.path())
        .env("TMPDIR", folder.path().join("missing"))
        .env("TMP", folder.path().join("missing"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
}

#[test]
fn no_temporary_file_is_needed_even_if_connections_break() {
    let server = serve(|asked, served, to| match asked.number {
        3 | 5 => {
            begin(asked, served, to, 700_000)?;
            Ok(Then::Close)
        }
        _ => right(asked, served, to),
    });
    let folder = tempfile::tempdir().unwrap();
    let mut base = model();
    let last = base.len() - 1;
    base[last] ^= 1;
    std::fs::write(folder.path().join("base.safetensors"), base).unwrap();
    std::fs::write(folder.path().join("model.safetensors"), model()).unwrap();
    for (kind, more) in [
        ("zstn", &[][..]),
        ("z4dm", &["--base", "base.safetensors"][..]),
    ] {
        let [local, remote] = ["local", "remote"].map(|name| format!("{name}.{kind}"));
        for (input, output) in [("model.safetensors", &local), (&server.url, &remote)] {
            let arguments = [&[input, "-o", output, "--memory", "64M"], more].concat();
            pack(&folder, &arguments);
        }
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        assert!(read(&local) == read(&remote), "{kind}");
    }
    let resumed = server.log().iter().any(|asked| asked.if_range.is_some());
    assert!(resumed, "the rest of a broken response was not requested");
}

#[test]
fn no_temporary_file_is_needed_for_shards() {
    let folder = tempfile::tempdir().unwrap();
    let server = RoundServer::start();
    let add = |name: &str, bytes: Vec<u8>| {
        std::fs::write(folder.path().join(name), &bytes).unwrap();
        server.add(name, Page::File(bytes))
    };
    for name in ["a", "b", "c"] {
        let weights = Rng(name.as_bytes()[0].into()).bf16_weights(100_000);
        let tensors = [(name, "BF16", &weights[..])];
        add(&format!("{name}.safetensors"), checkpoint(&tensors));
    }
    let index = r#"{"weight_map":{"a":"a.safetensors","b":"b.safetensors","c":"c.safetensors"}}"#;
    let url = add("model.safetensors.index.json", index.into());
    pack(&folder, &["model.safetensors.index.json", "-o", "local"]);
    pack(&folder, &[&url, "-o", "remote"]);
    for entry in std::fs::read_dir(folder.path().join("local")).unwrap() {
        let local = entry.unwrap().path();
        let remote = folder
            .path()
            .join("remote")
            .join(local.file_name().unwrap());
        assert!(std::fs::read(&local).unwrap() == std::fs::read(remote).unwrap());
    }
}

#[test]
fn cancelled_packing_does_not_wait_for_a_slow_server() {
    let server = serve(|asked, served, to| match asked.number {
        1 | 2 => right(asked, served, to),
        _ => {
            let (head, body) = right_parts(asked, served);
            std::io::Write::write_all(to, &head)?;
            drip(to, body)
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("model.zstn");
    let token = CancelToken::new();
    let job = Job::new()
        .engine(&Engine::new(2).unwrap())
        .cancel_token(&token);
    let begun = || server.log().len() >= 3;
    let pack = || {
        let input = Location::url(&server.url);
        zstn::pack(&job, input, &output, &PackOptions::default())
    };
    let (result, took) = cancelled(&token, begun, pack);
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    // The server needs minutes. A busy machine may need more than a fifth of a second.
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}
