//! Signals during a run.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use zstn_tests::command::{is_ignored, program, text};

/// The number of shards to pack, enough for a signal to arrive during the work.
const SHARDS: usize = 100;

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
        while !under_way() {
            assert!(child.try_wait().expect("status").is_none(), "never began");
            std::thread::yield_now();
        }
        let id = Pid::from_child(&child);
        kill_process(id, signal).expect("a signal");
        let out = child.wait_with_output().expect("zstn ends");
        let said = text(&out.stdout) + &text(&out.stderr);
        assert_eq!(
            (out.status.code(), said.as_str()),
            (Some(130), ""),
            "{signal:?}: {}",
            out.status
        );
        let left = std::fs::read_dir(scratch.path()).expect("a folder").count();
        assert_eq!(left, 1, "only the model is there");
    }
}
