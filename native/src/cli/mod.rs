//! One module per verb, its options beside its handler.
//!
//! Results go to standard output, everything else to standard error. Exit
//! status: 0 done, 1 the input is bad or differs, 2 wrong usage, 3 I/O, 130
//! stopped.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use zstn::Error;
use zstn_core::ErrorKind;

mod bench;
mod convert;
mod frames;
mod get;
mod info;
mod ls;
mod pack;
mod place;
mod progress;
mod rows;
mod serve;
mod shards;
mod size;
mod table;
mod unpack;
mod values;
mod verify;

/// Lossless compression of AI model checkpoints, with single tensors readable
/// out of the packed file.
#[derive(Parser)]
#[command(name = "zstn", version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Pack a safetensors file, or a checkpoint in several
    Pack(pack::Options),
    /// Restore the original, byte for byte
    Unpack(unpack::Options),
    /// Write a checkpoint in another format
    Convert(convert::Options),
    /// List the tensors of a file
    Ls(ls::Options),
    /// Describe a file
    Info(info::Options),
    /// Read one tensor
    Get(get::Options),
    /// Decode everything and check it
    Verify(verify::Options),
    /// Compress a file as a single frame
    Compress(frames::CompressOptions),
    /// Restore the file of a single frame
    Decompress(frames::DecompressOptions),
    /// Serve a folder over HTTP with ranges, for demos and tests
    Serve(serve::Options),
    /// Time packing and unpacking in memory
    Bench(bench::Options),
}

impl Verb {
    fn json(&self) -> bool {
        match self {
            Self::Pack(o) => o.json,
            Self::Unpack(o) => o.json,
            Self::Convert(o) => o.json,
            Self::Ls(o) => o.json,
            Self::Info(o) => o.json,
            Self::Get(o) => o.json,
            Self::Verify(o) => o.json,
            Self::Compress(o) => o.json,
            Self::Decompress(o) => o.json,
            Self::Serve(o) => o.json,
            Self::Bench(o) => o.json,
        }
    }
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let verb = Cli::parse().verb;
    let json = verb.json();
    if !matches!(verb, Verb::Serve(_)) {
        clean_up_when_stopped();
    }
    let result = match verb {
        Verb::Pack(options) => pack::run(&options),
        Verb::Unpack(options) => unpack::run(&options),
        Verb::Convert(options) => convert::run(&options),
        Verb::Ls(options) => ls::run(&options),
        Verb::Info(options) => info::run(&options),
        Verb::Get(options) => get::run(&options),
        Verb::Verify(options) => verify::run(&options),
        Verb::Compress(options) => frames::compress(&options),
        Verb::Decompress(options) => frames::decompress(&options),
        Verb::Serve(options) => serve::run(&options),
        Verb::Bench(options) => bench::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a pipe has seen enough.
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            report(&error, json);
            ExitCode::from(status(&error))
        }
    }
}

/// Ctrl-C leaves nothing half-made behind. Where a signal is ignored or
/// handled already, as under `nohup`, all stays as it is.
fn clean_up_when_stopped() {
    const STOPPED: i32 = 130; // what a shell says of a program ended by Ctrl-C
    let _ = ctrlc::try_set_handler(|| {
        zstn::remove_unfinished();
        std::process::exit(STOPPED);
    });
}

fn status(error: &Error) -> u8 {
    match error {
        Error::Format { source, .. } | Error::Core(source) => match source.kind() {
            ErrorKind::InvalidInput => 2,
            _ => 1,
        },
        Error::Differs { .. } => 1,
        Error::Usage(_) => 2,
        _ => 3,
    }
}

fn report(error: &Error, json: bool) {
    if !json {
        eprintln!("error: {error}");
        return;
    }
    let refusal = error.refusal();
    let kind = match error {
        Error::Differs { .. } => "differs",
        Error::Usage(_) => "usage",
        Error::Http { .. } => "http",
        Error::Changed { .. } => "changed",
        Error::Io { .. } => "io",
        _ => refusal.map_or("other", |r| r.kind().code()),
    };
    let object = serde_json::json!({
        "error": {
            "kind": kind,
            "rule": refusal.and_then(|r| r.rule()).map(|rule| rule.code()),
            "offset": refusal.and_then(zstn_core::Error::offset),
            "tensor": refusal.and_then(zstn_core::Error::tensor_name),
            "message": error.to_string(),
        }
    });
    eprintln!("{object}");
}

/// Writes a line to standard output; a closed pipe is an error like others.
fn print(text: impl std::fmt::Display) -> zstn::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout().lock(), "{text}")
        .map_err(|error| Error::io("write standard output", error))
}
