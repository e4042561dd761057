//! The command line `zstn` as a library: one module per verb, with its options and its
//! handler. The program `zstn` and the script of the Python package call [`run`].
//!
//! Results are written to standard output, everything else to standard error. Exit
//! status: 0 for success, 1 if the input is invalid or differs, 2 for wrong usage, 3
//! for I/O errors, 130 if stopped by a signal, 141 if the reader of a result closed the
//! pipe early.

// The denied macros panic when the pipe is closed; `terminal` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use zstn::{Error, Location};
use zstn_core::ErrorKind;

mod arguments;
mod base_options;
mod bench;
mod compress;
mod convert;
mod diff;
mod elements;
#[cfg(feature = "gateway")]
mod gateway;
mod get;
mod help;
mod info;
#[cfg(feature = "lfs")]
mod lfs;
mod ls;
mod network;
mod outputs;
mod pack;
mod pattern;
mod progress;
mod selection;
mod serve;
mod signals;
mod size;
mod sketch;
mod table;
mod terminal;
mod tree;
mod unpack;
mod verify;
mod view;
#[cfg(feature = "worker")]
mod worker;

use terminal::{Left, print, say};

/// The address formats, shown at the end of the help.
const ADDRESSES: &str = "\
An input is a path, - for standard input, or an address: https://…, http://…,
hf://OWNER/NAME@REVISION/FILE in a model hub, s3://, az:// and gs:// in an object
store, or file:///… (docs/command-line.md)";

/// Make AI model checkpoints smaller without losing a bit, and read single tensors out
/// of the packed file.
#[derive(Parser)]
#[command(name = "zstn", version, propagate_version = true)]
#[command(after_help = ADDRESSES)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Pack a file of any format, or a folder with a checkpoint
    Pack(pack::Options),
    /// Restore the original, byte for byte
    Unpack(unpack::Options),
    /// Write a checkpoint in another format
    Convert(convert::Options),
    /// List the tensors of a file
    Ls(ls::Options),
    /// Describe a file
    Info(info::Options),
    /// Read tensors, or rows and other parts of one
    Get(get::Options),
    /// Decode everything and check it
    Verify(verify::Options),
    /// State which tensors of two models differ, and by how much
    Diff(diff::Options),
    /// Write a small signature with which --base auto compares checkpoints
    Sketch(sketch::Options),
    /// Compress any file as a frame without checksums (for checkpoints, use `pack`)
    Compress(compress::CompressOptions),
    /// Decompress a single frame
    Decompress(compress::DecompressOptions),
    /// Show a model in the browser
    View(view::Options),
    /// Serve a folder over HTTP with ranges, for demos and tests
    Serve(serve::Options),
    /// Serve a model hub that shows packed files as the originals
    #[cfg(feature = "gateway")]
    Gateway(gateway::Options),
    /// Keep packed objects in git-lfs
    #[cfg(feature = "lfs")]
    Lfs(lfs::Options),
    /// Pack the files pushed to a model hub or listed in a plan
    #[cfg(feature = "worker")]
    Worker(worker::Options),
    /// Measure the speed of packing and unpacking, in memory or with files
    Bench(bench::Options),
    /// Print a shell script that completes verbs, options and values
    Completions(help::CompletionsOptions),
    /// Print the manual page or write the pages of all verbs to a folder
    Man(help::ManOptions),
}

impl Verb {
    fn json(&self) -> bool {
        match self {
            Self::Pack(o) => o.report.json,
            Self::Unpack(o) => o.report.json,
            Self::Convert(o) => o.report.json,
            Self::Ls(o) => o.report.json,
            Self::Info(o) => o.json,
            Self::Get(o) => o.report.json,
            Self::Verify(o) => o.report.json,
            Self::Diff(o) => o.report.json,
            Self::Sketch(o) => o.report.json,
            Self::Compress(o) => o.report.json,
            Self::Decompress(o) => o.report.json,
            Self::View(o) => o.json,
            Self::Serve(o) => o.listen.json,
            #[cfg(feature = "gateway")]
            Self::Gateway(o) => o.listen.json,
            #[cfg(feature = "lfs")]
            Self::Lfs(o) => o.json(),
            #[cfg(feature = "worker")]
            Self::Worker(o) => o.json,
            Self::Bench(o) => o.json,
            Self::Completions(_) | Self::Man(_) => false,
        }
    }
}

impl Verb {
    /// Returns whether the verb runs until a signal ends it.
    fn serves(&self) -> bool {
        match self {
            Self::Serve(_) => true,
            Self::View(_) => true,
            #[cfg(feature = "gateway")]
            Self::Gateway(_) => true,
            #[cfg(feature = "worker")]
            Self::Worker(_) => true,
            _ => false,
        }
    }
}

/// Returns the command line, with examples for every verb.
fn command() -> Command {
    help::add_to(Cli::command())
}

/// The call of [`run`], which a process makes once.
struct Invocation {
    /// The script that has started this process, if it is not a program of its own.
    #[cfg_attr(not(feature = "lfs"), expect(dead_code))]
    script: Option<PathBuf>,
    /// The command line contains `--json`.
    has_json: bool,
}

static INVOCATION: OnceLock<Invocation> = OnceLock::new();

/// Runs the command line and returns the exit status, with which the process has to end.
///
/// `arguments` do not include the name of the program. `script` is the file that starts
/// this command line if that is not the executable of the process: `zstn lfs install`
/// makes git-lfs run it.
///
/// Call this function once, on the main thread. It installs signal handlers, raises the
/// limit of open files and uses the standard streams of the process. A signal may end the
/// process before this function returns.
pub fn run(script: Option<PathBuf>, arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let status = run_verb(script, arguments.into_iter().collect());
    // The standard library flushes this buffer only where `main` is Rust's.
    let _ = std::io::stdout().flush();
    status
}

fn run_verb(script: Option<PathBuf>, mut arguments: Vec<OsString>) -> u8 {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    zstn::allocator::retain_freed();
    let has_json = arguments
        .iter()
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "--json");
    let _ = INVOCATION.set(Invocation { script, has_json });
    arguments.insert(0, "zstn".into());
    let matches = command().try_get_matches_from(arguments);
    let verb = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli.verb,
        Err(error) => return misunderstood(&error),
    };
    let json = verb.json();
    if !verb.serves() {
        signals::clean_up_when_stopped();
    }
    zstn::on_warning(warn);
    raise_descriptor_limit();
    report_full_quota();
    let result = match verb {
        Verb::Pack(options) => pack::run(&options),
        Verb::Unpack(options) => unpack::run(&options),
        Verb::Convert(options) => convert::run(&options).map_err(Failure::from),
        Verb::Ls(options) => ls::run(&options),
        Verb::Info(options) => info::run(&options),
        Verb::Get(options) => get::run(&options).map_err(Failure::from),
        Verb::Verify(options) => verify::run(&options),
        Verb::Diff(options) => diff::run(&options),
        Verb::Sketch(options) => sketch::run(&options),
        Verb::Compress(options) => compress::compress(&options).map_err(Failure::from),
        Verb::Decompress(options) => compress::decompress(&options).map_err(Failure::from),
        Verb::View(options) => view::run(&options).map_err(Failure::from),
        Verb::Serve(options) => serve::run(&options).map_err(Failure::from),
        #[cfg(feature = "gateway")]
        Verb::Gateway(options) => gateway::run(&options).map_err(Failure::from),
        #[cfg(feature = "lfs")]
        Verb::Lfs(options) => lfs::run(&options).map_err(Failure::from),
        #[cfg(feature = "worker")]
        Verb::Worker(options) => worker::run(&options),
        Verb::Bench(options) => bench::run(&options).map_err(Failure::from),
        Verb::Completions(options) => help::completions(&options).map_err(Failure::from),
        Verb::Man(options) => help::man(&options).map_err(Failure::from),
    };
    // After a signal has removed unfinished files, the work on them fails. Such an
    // error is not worth reporting.
    signals::wait_if_stopped();
    match result {
        Ok(()) => 0,
        Err(Failure::Error(error)) => conclude(&error, json),
        Err(Failure::Reported(status)) => status,
    }
}

/// Returns the script that has started this process, if it is not a program of its own.
#[cfg(feature = "lfs")]
fn script() -> Option<&'static std::path::Path> {
    INVOCATION.get()?.script.as_deref()
}

/// Returns whether the command line contains `--json`.
fn has_json() -> bool {
    INVOCATION.get().is_some_and(|call| call.has_json)
}

/// The result of a verb (subcommand); [`Failure`] determines the exit status.
type Outcome = Result<(), Failure>;

/// The reason why a verb failed.
enum Failure {
    /// An error that has not been printed yet.
    Error(Error),
    /// Some of several inputs failed and their errors have been printed; contains the
    /// exit status.
    Reported(u8),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Calls `work` for every input. If one of several inputs fails, the others are still
/// processed.
fn each<I: ExactSizeIterator>(
    inputs: I,
    json: bool,
    mut work: impl FnMut(I::Item) -> zstn::Result<()>,
) -> Outcome {
    let is_one = inputs.len() == 1;
    let mut worst = 0;
    for input in inputs {
        match work(input) {
            Ok(()) => {}
            Err(error) if is_one || Left::of(&error).is_some() => return Err(error.into()),
            Err(error) => {
                signals::wait_if_stopped();
                report(&error, json);
                worst = worst.max(status(&error));
            }
        }
    }
    match worst {
        0 => Ok(()),
        status => Err(Failure::Reported(status)),
    }
}

/// Replaces every folder that is no checkpoint itself with the checkpoints in its
/// subfolders, such as the models of a diffusion pipeline.
fn checkpoints(inputs: &[Location]) -> Vec<Location> {
    let all = inputs.iter().map(|input| {
        let below = zstn::internals::checkpoints_below(input);
        match below.is_empty() {
            true => vec![input.clone()],
            false => below,
        }
    });
    all.flatten().collect()
}

/// Prints an error and returns its exit status.
fn conclude(error: &Error, json: bool) -> u8 {
    match Left::of(error) {
        Some(Left::Satisfied) => return 0,
        // The reader closed the pipe itself, so no message is needed.
        Some(Left::CutOff) => return CUT_OFF,
        None => {}
    }
    report(error, json);
    status(error)
}

/// The status that shells report for a program ended by `SIGPIPE`. It is used when the
/// reader of a result closes the pipe early.
const CUT_OFF: u8 = 141;

/// Prints clap's message: the help, or an error in the arguments.
fn misunderstood(error: &clap::Error) -> u8 {
    let status = u8::try_from(error.exit_code()).unwrap_or(2);
    let printed = error.render().to_string();
    let text = zstn::display::without_secrets(&printed);
    if status != 0 && has_json() {
        let message = text.strip_prefix("error: ").unwrap_or(&text);
        report(&Error::Usage(message.trim_end().into()), true);
        return status;
    }
    // The message quotes arguments, which may be file names with control characters.
    let is_unsafe = |character| character != '\n' && zstn::display::is_unsafe(character);
    match text.contains(is_unsafe) || text != printed {
        true => text.lines().for_each(|line| say!("{line}")),
        // Prints in colour; a failure to print is ignored.
        false => drop(error.print()),
    }
    status
}

/// Makes a write fail that would exceed the maximum file size of this process (`ulimit
/// -f`). Otherwise, the signal `SIGXFSZ` would end the process without removing its
/// hidden temporary files.
fn report_full_quota() {
    #[cfg(unix)]
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
}

/// Raises the limit of open files as far as the system permits, because a checkpoint
/// may consist of thousands of files.
fn raise_descriptor_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        const ENOUGH: u64 = 1 << 16;
        const MACOS_MAX: u64 = 10_240;
        let limit = getrlimit(Resource::Nofile);
        let most = limit.maximum.unwrap_or(MACOS_MAX).min(ENOUGH);
        if limit.current.is_some_and(|current| current < most) {
            // If this fails, fewer files can be open.
            let _ = setrlimit(
                Resource::Nofile,
                Rlimit {
                    current: Some(most),
                    ..limit
                },
            );
        }
    }
}

/// Prints a warning of the library. With `--json`, it is JSON, because standard error
/// then contains only JSON.
fn warn(text: &str) {
    match has_json() {
        true => terminal::say_json(&serde_json::json!({ "warning": { "message": text } })),
        false => say!("warning: {text}"),
    }
}

fn status(error: &Error) -> u8 {
    match error {
        Error::Format { source, .. } | Error::Core(source) => match source.kind() {
            ErrorKind::InvalidInput | ErrorKind::NotFound => 2,
            _ => 1,
        },
        Error::Differs { .. } => 1,
        Error::Usage(_) | Error::Exists { .. } | Error::NeedsBase { .. } => 2,
        _ => 3,
    }
}

/// Returns whether the error is about a tensor that does not exist, and suggests no other.
fn is_unknown_name(error: &Error) -> bool {
    let kind = error.refusal().map(zstn_core::Error::kind);
    kind == Some(ErrorKind::NotFound) && !error.to_string().contains("did you mean")
}

fn report(error: &Error, json: bool) {
    let hint = match error {
        Error::Exists { .. } => "; use --force to replace it, or choose another name",
        Error::NeedsBase { .. } => {
            " (with --base; if that is a delta too, repeat --base for its own base)"
        }
        _ if is_unknown_name(error) => "; `zstn ls` lists the names",
        _ => "",
    };
    let message = format!("{error}{hint}");
    if !json {
        return say!("error: {message}");
    }
    let refusal = error.refusal();
    terminal::say_json(&serde_json::json!({
        "error": {
            "kind": error.code(),
            "rule": refusal.and_then(|r| r.rule()).map(|rule| rule.code()),
            "offset": refusal.and_then(zstn_core::Error::offset),
            "tensor": refusal.and_then(zstn_core::Error::tensor_name),
            "message": message,
        }
    }));
}
