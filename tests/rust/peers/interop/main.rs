//! Encodes random inputs with every transform and method of the encoders, and has the
//! real z4ai decode them: `cargo xtask interop`.
//!
//! The parent process runs z4ai and answers over a pipe (see `oracle` and
//! tests/peers/test_interop.py). A refused case is shrunk and saved in a directory.

mod checkpoints;
mod content;
mod encoding;
mod families;
mod oracle;
mod planes;

use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use encoding::{Case, Encoding, Failure, Plan};
use oracle::Oracle;

/// The arguments. None of them is optional.
struct Args {
    plan: Plan,
    /// Runs only encoders whose label contains this text.
    only: String,
    /// The directory for refused cases.
    keep: PathBuf,
}

impl Args {
    fn parse() -> Option<Self> {
        let mut words = std::env::args().skip(1);
        let args = Self {
            plan: Plan {
                cases: words.next()?.parse().ok()?,
                seed: words.next()?.parse().ok()?,
            },
            keep: words.next()?.into(),
            only: words.next().unwrap_or_default(),
        };
        words.next().is_none().then_some(args)
    }
}

fn main() -> ExitCode {
    let Some(args) = Args::parse() else {
        eprintln!("usage: interop CASES SEED DIRECTORY [LABEL]; see `cargo xtask interop`");
        return ExitCode::from(2);
    };
    let encodings: Vec<Encoding> = [
        planes::encodings(),
        families::encodings(),
        checkpoints::encodings(),
    ]
    .into_iter()
    .flatten()
    .filter(|encoding| encoding.label.contains(&args.only))
    .collect();
    if encodings.is_empty() {
        eprintln!("no encoding to encode is called {:?}", args.only);
        return ExitCode::from(2);
    }
    let mut oracle = Oracle::new(
        BufReader::new(io::stdin().lock()),
        BufWriter::with_capacity(1 << 20, io::stdout().lock()),
    );
    let mut tally = Tally::default();
    for encoding in &encodings {
        let result = encoding.run(&args.plan, &mut |label, case| {
            tally.add(case);
            match oracle.ask(label, case) {
                Ok(answer) if answer.is_empty() => Ok(()),
                Ok(answer) => Err(format!("z4ai: {answer}")),
                Err(error) => Err(format!("z4ai is gone: {error}")),
            }
        });
        if let Err(failure) = result {
            report(&encoding.label, &failure, &args);
            return ExitCode::FAILURE;
        }
    }
    eprintln!(
        "{} encodings, {} cases, {} MB decoded, seed {}",
        encodings.len(),
        tally.cases,
        tally.bytes / 1_000_000,
        args.plan.seed
    );
    ExitCode::SUCCESS
}

#[derive(Default)]
struct Tally {
    cases: u64,
    bytes: usize,
}

impl Tally {
    fn add(&mut self, case: &Case) {
        self.cases += 1;
        self.bytes += case.original.len();
    }
}

fn report(label: &str, failure: &Failure, args: &Args) {
    eprintln!("{label}\n  {}\n  input: {}", failure.why, failure.input);
    eprintln!(
        "  again: cargo xtask interop --cases {} --seed {} --only '{label}'",
        args.plan.cases, args.plan.seed
    );
    if let Some(case) = &failure.case {
        match keep(&args.keep, case) {
            Ok(()) => eprintln!("  kept in {}", args.keep.display()),
            Err(error) => eprintln!("  could not be kept: {error}"),
        }
    }
}

fn keep(directory: &Path, case: &Case) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for (name, bytes) in [
        ("original", &case.original),
        ("reference", &case.reference),
        ("encoded", &case.encoded),
    ] {
        std::fs::write(directory.join(name), bytes)?;
    }
    Ok(())
}
