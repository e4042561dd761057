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
mod escaped;
mod frames;
mod get;
mod info;
mod ls;
mod pack;
mod place;
mod progress;
mod rows;
mod say;
mod serve;
mod shards;
mod size;
mod stdout;
mod stop;
mod table;
mod terminal;
mod unpack;
mod values;
mod verify;

use say::say;
use stdout::print;

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
    let verb = match Cli::try_parse() {
        Ok(cli) => cli.verb,
        Err(error) => return misunderstood(&error),
    };
    let json = verb.json();
    if !matches!(verb, Verb::Serve(_)) {
        stop::clean_up_when_stopped();
    }
    zstn::source::survive_truncation();
    report_full_quota();
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
    // Work whose files a signal has removed fails; that is not worth a word.
    stop::wait_if_stopped();
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

/// Shows what clap says of the arguments: its help, or what is wrong.
fn misunderstood(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    // It quotes arguments as they are; a file's name may be among them.
    let is_unsafe = |character| character != '\n' && escaped::is_unsafe(character);
    match text.contains(is_unsafe) {
        true => text.lines().for_each(|line| say!("{line}")),
        // In colour; nobody listens to a closed pipe.
        false => drop(error.print()),
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// A file that would grow past the limit set for this process (`ulimit -f`)
/// becomes an error of that write; by default the signal ends the process,
/// which would leave its hidden files behind.
fn report_full_quota() {
    #[cfg(unix)]
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
}

fn status(error: &Error) -> u8 {
    match error {
        Error::Format { source, .. } | Error::Core(source) => match source.kind() {
            ErrorKind::InvalidInput => 2,
            _ => 1,
        },
        Error::Differs { .. } => 1,
        Error::Usage(_) | Error::Exists { .. } => 2,
        _ => 3,
    }
}

fn report(error: &Error, json: bool) {
    let message = match error {
        Error::Exists { .. } => {
            format!("{error}; use --force to replace it, or choose another name")
        }
        _ => error.to_string(),
    };
    if !json {
        return say!("error: {message}");
    }
    let refusal = error.refusal();
    let kind = match error {
        Error::Differs { .. } => "differs",
        Error::Usage(_) => "usage",
        Error::Http { .. } => "http",
        Error::Io { .. } => "io",
        Error::Exists { .. } => "exists",
        Error::Changed { .. } => "changed",
        _ => refusal.map_or("other", |r| r.kind().code()),
    };
    say::json(&serde_json::json!({
        "error": {
            "kind": kind,
            "rule": refusal.and_then(|r| r.rule()).map(|rule| rule.code()),
            "offset": refusal.and_then(zstn_core::Error::offset),
            "tensor": refusal.and_then(zstn_core::Error::tensor_name),
            "message": message,
        }
    }));
}
