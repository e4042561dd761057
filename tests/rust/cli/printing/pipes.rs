//! Closed output pipes.

use std::io::pipe;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use zstn_tests::command::{program, text, zstn};
use zstn_tests::rng::Rng;

use crate::folder_with;

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
        (&["get", "m.zstn", "none"], 1),
        (&["get", "m.zstn", "none", "--json"], 1),
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
