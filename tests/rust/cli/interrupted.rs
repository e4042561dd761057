//! Runs that end early: killed processes, signals, and closed output pipes.

use std::io::pipe;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

#[cfg(unix)]
use rustix::process::Pid;
#[cfg(unix)]
use rustix::process::Signal;
#[cfg(unix)]
use rustix::process::kill_process;
use zstn_tests::command::{is_ignored, program, text, zstn};
use zstn_tests::rng::Rng;
#[cfg(unix)]
use zstn_tests::with_header;

use crate::folder_with;

#[test]
fn a_killed_pack_leaves_nothing_under_the_final_name() {
    let mut rng = Rng(9);
    let block = rng.bf16_weights(1 << 20);
    let count = 60;
    let len = block.len() * count;
    let header = format!(
        "{{\"w\":{{\"dtype\":\"BF16\",\"shape\":[{}],\"data_offsets\":[0,{len}]}}}}",
        len / 2
    );
    let mut file = with_header(header, b"");
    for _ in 0..count {
        file.extend_from_slice(&block);
    }
    let folder = folder_with("big.safetensors", &file);
    let part = || {
        std::fs::read_dir(folder.path())
            .expect("a folder")
            .flatten()
            .find(|entry| entry.path().extension().is_some_and(|e| e == "part"))
    };
    let mut child = Command::new(program())
        .args([
            "pack",
            "big.safetensors",
            "--memory",
            "64M",
            "--effort",
            "max",
        ])
        .current_dir(folder.path())
        .spawn()
        .expect("zstn runs");
    // Wait until the start of the output is written and the rest is not.
    while part()
        .and_then(|p| p.metadata().ok())
        .is_none_or(|m| m.len() == 0)
    {
        assert!(
            child.try_wait().expect("status").is_none(),
            "packing was too fast to interrupt"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("killed"); // SIGKILL, so that no handler runs
    child.wait().expect("ended");
    assert!(!folder.path().join("big.zstn").exists());
    assert!(
        part().is_some(),
        "what was written is still under its own name"
    );
    // The next run in this folder removes the leftovers, but no files with similar
    // names.
    #[cfg(unix)]
    {
        let others = [".mine.Ab12Cd.part", ".big.zstn.Ab12Cd.00000000.zstn.part"];
        for name in others {
            std::fs::write(folder.path().join(name), b"mine").expect("written");
        }
        let left = folder.path().join(".killed.Ab12Cd.00000000.zstn.part");
        std::fs::create_dir(&left).expect("made");
        let old = std::time::SystemTime::now() - Duration::from_secs(25 * 60 * 60);
        let opened = std::fs::File::open(&left).expect("a folder");
        opened.set_modified(old).expect("an old folder");
        drop(opened);
        let out = zstn(
            folder.path(),
            &[
                "get",
                "big.safetensors",
                "w",
                "--rows",
                "0",
                "-o",
                "row.bin",
            ],
        );
        assert!(out.status.success());
        let names = std::fs::read_dir(folder.path())
            .expect("a folder")
            .flatten();
        let mut hidden: Vec<String> = names
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with('.'))
            .collect();
        hidden.sort();
        assert_eq!(
            hidden,
            [others[1], others[0]],
            "of this machine and old ones are gone"
        );
    }
}

/// The number of shards to pack, enough for a signal to arrive during the work.
#[cfg(unix)]
const SHARDS: usize = 100;

#[cfg(unix)]
#[test]
fn after_a_signal_there_is_one_status_and_not_a_word() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let folder = scratch.path().join("model");
    std::fs::create_dir(&folder).expect("made");
    let mut index = serde_json::Map::new();
    for number in 0..SHARDS {
        let (name, shard) = (format!("t{number}"), format!("{number:05}.safetensors"));
        let file = zstn_tests::checkpoint(&[(&name, "U8", &[1, 2, 3, 4])]);
        std::fs::write(folder.join(&shard), file).expect("written");
        index.insert(name, shard.into());
    }
    let index = serde_json::json!({ "weight_map": index }).to_string();
    std::fs::write(folder.join("model.safetensors.index.json"), index).expect("written");
    let signals = [Signal::INT, Signal::TERM];
    let signals: Vec<Signal> = signals.into_iter().filter(|s| !is_ignored(*s)).collect();
    if signals.is_empty() {
        eprintln!("skipped: signals are ignored here");
        return;
    }
    let mut interrupted = 0;
    for trial in 0..20 {
        let signal = signals[trial % signals.len()];
        // Half of the trials ignore one signal, as under `nohup`; the others must still
        // be handled.
        let start = match trial % 4 < 2 {
            true => "exec \"$0\" pack model -o packed",
            false => "trap '' HUP; exec \"$0\" pack model -o packed",
        };
        let mut child = Command::new("sh")
            .args(["-c", start])
            .arg(program())
            .current_dir(scratch.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("zstn runs");
        // Wait until some shards are packed, more of them in every trial.
        let under_way = || {
            let entries = std::fs::read_dir(scratch.path()).expect("a folder");
            let hidden = entries.flatten().map(|entry| entry.path()).find(|path| {
                let name = path.file_name().unwrap_or_default();
                name.to_string_lossy().starts_with('.')
            });
            let packed = hidden.and_then(|hidden| std::fs::read_dir(hidden).ok());
            packed.is_some_and(|packed| packed.count() > trial)
        };
        while !under_way() && child.try_wait().expect("status").is_none() {
            std::thread::yield_now();
        }
        if child.try_wait().expect("status").is_none() {
            let id = Pid::from_child(&child);
            kill_process(id, signal).expect("a signal");
        }
        let out = child.wait_with_output().expect("zstn ends");
        let said = text(&out.stdout) + &text(&out.stderr);
        // On a busy machine, packing can end before this test notices that it began.
        if out.status.success() {
            let packed = scratch.path().join("packed");
            std::fs::remove_dir_all(packed).expect("all shards are packed");
            continue;
        }
        interrupted += 1;
        assert_eq!(
            (out.status.code(), said.as_str()),
            (Some(130), ""),
            "{signal:?}: {}",
            out.status
        );
        let left = std::fs::read_dir(scratch.path()).expect("a folder").count();
        assert_eq!(left, 1, "only the model is there");
    }
    assert!(
        interrupted >= 5,
        "only {interrupted} of 20 were interrupted"
    );
}

/// The output streams that are closed.
#[derive(Debug, Clone, Copy)]
struct Closed {
    stdout: bool,
    stderr: bool,
}

fn run(folder: &Path, arguments: &[&str], closed: Closed) -> ExitStatus {
    let end = |is_closed| match is_closed {
        false => Stdio::null(),
        // The reading end is dropped here, before the program writes anything.
        true => Stdio::from(pipe().expect("a pipe").1),
    };
    Command::new(program())
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(end(closed.stdout))
        .stderr(end(closed.stderr))
        .status()
        .expect("zstn runs")
}

#[test]
fn a_closed_pipe_never_ends_in_a_panic() {
    let mut rng = Rng(7);
    let weights: Vec<Vec<u8>> = (0..4).map(|_| rng.bf16_weights(40_000)).collect();
    let names = ["a", "b", "c", "d"];
    let tensors: Vec<_> = names
        .iter()
        .zip(&weights)
        .map(|(name, bytes)| (*name, "BF16", &bytes[..]))
        .collect();
    let folder = folder_with("m.safetensors", &zstn_tests::checkpoint(&tensors));
    let packed = zstn(folder.path(), &["pack", "m.safetensors"]);
    assert!(packed.status.success(), "{}", text(&packed.stderr));
    for (arguments, status) in [
        (&["pack", "m.safetensors", "-o", "x.zstn"][..], 0),
        (&["pack", "m.safetensors", "-o", "-"], 0),
        (&["unpack", "m.zstn", "-o", "y.safetensors"], 0),
        (&["unpack", "m.zstn", "-o", "-"], 0),
        (&["get", "m.zstn", "a", "-o", "-"], 0),
        (&["compress", "m.safetensors", "-o", "-"], 0),
        (&["convert", "m.zstn", "m.gauss", "--lossy"], 0),
        (&["convert", "m.zstn", "m.zt"], 0),
        (&["compress", "m.safetensors", "-o", "z.z4ai"], 0),
        (&["ls", "m.zstn"], 0),
        (&["ls", "m.zstn", "--json"], 0),
        (&["info", "m.zstn"], 0),
        (&["verify", "m.zstn"], 0),
        (&["get", "m.zstn", "a"], 0),
        (&["get", "m.zstn", "a", "-o", "a.npy"], 0),
        (&["get", "m.zstn", "none"], 2),
        (&["get", "m.zstn", "none", "--json"], 2),
        (&["--help"], 0),
        (&["ls", "--nonsense"], 2),
    ] {
        for (stdout, stderr) in [(true, false), (false, true), (true, true)] {
            let closed = Closed { stdout, stderr };
            // An existing output file would be a separate error.
            for made in [
                "x.zstn",
                "y.safetensors",
                "m.gauss",
                "m.zt",
                "z.z4ai",
                "a.npy",
            ] {
                let _ = std::fs::remove_file(folder.path().join(made));
            }
            let ended = run(folder.path(), arguments, closed);
            // A truncated result must not be mistaken for a complete one; a listing may
            // be truncated.
            let is_result =
                arguments.ends_with(&["-o", "-"]) || arguments == ["get", "m.zstn", "a"];
            let expected = if stdout && is_result { 141 } else { status };
            // A process that a signal ended has no exit code.
            assert_eq!(
                ended.code(),
                Some(expected),
                "{arguments:?} with {closed:?}"
            );
        }
    }
}
