//! Encodes random inputs with every transform and method of the encoders, and has the
//! real z4ai decode them: `cargo xtask test --only peers`.
//!
//! The parent process runs z4ai and answers over a pipe (see `Oracle` and
//! tests/peers/test_interop.py). A refused case is shrunk and saved in a directory.

mod checkpoints;
mod families;
mod planes;
mod random_buffers;

use std::cell::RefCell;
use std::fmt;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use sha2::{Digest, Sha256};
use zstn::Engine;
use zstn_core::container::model_delta::{Base, ModelDelta};
use zstn_core::container::zstn as container;
use zstn_core::frame::decompress;
use zstn_core::frame::delta::Delta;

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
        eprintln!("usage: interop CASES SEED DIRECTORY [LABEL]; see tests/peers/test_interop.py");
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
        "  again: ZSTN_INTEROP_CASES={} ZSTN_INTEROP_SEED={} ZSTN_INTEROP_ONLY='{label}' \
         cargo xtask test --only peers",
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

/// The connection to the process that runs the real z4ai. For each encoded case with its
/// expected contents, that process returns an error message, or an empty string on
/// success. Requests are written to standard output, and answers read
/// from standard input. Both consist of 32-bit lengths, each followed by bytes of that
/// length.
struct Oracle<R, W> {
    answers: R,
    requests: W,
}

impl<R: Read, W: Write> Oracle<R, W> {
    fn new(answers: R, requests: W) -> Self {
        Self { answers, requests }
    }

    /// Returns the error message for `case`, or an empty string.
    fn ask(&mut self, label: &str, case: &Case) -> io::Result<String> {
        for part in [
            label.as_bytes(),
            case.call.name().as_bytes(),
            &case.original,
            &case.reference,
            &case.encoded,
        ] {
            let len = u32::try_from(part.len()).map_err(io::Error::other)?;
            self.requests.write_all(&len.to_le_bytes())?;
            self.requests.write_all(part)?;
        }
        self.requests.flush()?;
        let mut len = [0; 4];
        self.answers.read_exact(&mut len)?;
        let mut answer = vec![0; u32::from_le_bytes(len) as usize];
        self.answers.read_exact(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// The public function of z4ai that decodes a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// `z4ai.decompress`
    Frame,
    /// `z4ai.turbo.decompress`
    Turbo,
    /// `z4ai.chunked.decompress`
    Chunked,
    /// `z4ai.decompress_delta`
    Delta,
    /// `z4ai.safetensors`, applied to the whole file and to single tensors.
    Container,
    /// `z4ai.model_delta.decompress`
    ModelDelta,
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Self::Frame => "frame",
            Self::Turbo => "turbo",
            Self::Chunked => "chunked",
            Self::Delta => "delta",
            Self::Container => "container",
            Self::ModelDelta => "model delta",
        }
    }
}

/// An encoded input and its expected contents.
#[derive(Clone)]
struct Case {
    call: Call,
    original: Vec<u8>,
    /// The base buffer or base checkpoint of a delta; empty for other cases.
    reference: Vec<u8>,
    encoded: Vec<u8>,
    /// True if the bytes show that the forced codec was used. Encoders store input that
    /// they cannot compress.
    forced: bool,
}

impl Case {
    fn frame(original: Vec<u8>, encoded: Vec<u8>) -> Self {
        Self {
            call: Call::Frame,
            forced: true,
            reference: Vec::new(),
            original,
            encoded,
        }
    }

    /// Decodes the case with zstn's decoder, and compares the result.
    fn comes_back(&self) -> Result<(), String> {
        let Self {
            encoded,
            reference,
            original,
            ..
        } = self;
        let bytes = match self.call {
            Call::Frame | Call::Turbo | Call::Chunked => {
                decompress(engine(), encoded, original.len() as u64)
            }
            Call::Delta => {
                Delta::parse(encoded).and_then(|delta| delta.decode(engine(), reference))
            }
            Call::Container => container::unpack(engine(), encoded),
            Call::ModelDelta => Base::parse(reference)
                .and_then(|base| ModelDelta::parse(encoded)?.unpack(engine(), &base)),
        };
        match bytes {
            Ok(bytes) if bytes == *original => Ok(()),
            Ok(bytes) => Err(format!(
                "we decode other bytes ourselves, {} of them",
                bytes.len()
            )),
            Err(error) => Err(format!("we refuse it ourselves: {error}")),
        }
    }
}

/// Returns the engine that all cases share, since starting threads is expensive.
fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(2).expect("two threads"))
}

/// The number of random cases and their seed.
struct Plan {
    cases: u32,
    seed: u64,
}

/// An error, and the smallest case that causes it.
struct Failure {
    why: String,
    input: String,
    case: Option<Case>,
}

/// A decoder of cases, which returns the reason if it refuses one.
type Judge<'a> = &'a mut dyn FnMut(&str, &Case) -> Result<(), String>;
type Run = dyn Fn(&str, &Plan, Judge) -> Result<(), Box<Failure>>;

/// An encoder with its inputs.
struct Encoding {
    label: String,
    run: Box<Run>,
}

impl Encoding {
    /// Creates an encoding that applies `encode` to all `anchors` and to the requested
    /// number of random `inputs`.
    fn new<I>(
        label: impl Into<String>,
        anchors: Vec<I>,
        inputs: impl Strategy<Value = I> + 'static,
        encode: impl Fn(&I) -> Case + 'static,
    ) -> Self
    where
        I: fmt::Debug + Clone + 'static,
    {
        let run = move |label: &str, plan: &Plan, judge: Judge| {
            let mut forced = false;
            let mut check = |input: &I| {
                let case = encode(input);
                forced |= case.forced;
                case.comes_back().and_then(|()| judge(label, &case))
            };
            let fail = |why: String, input: &I| {
                Box::new(Failure {
                    why,
                    input: format!("{input:?}"),
                    case: Some(encode(input)),
                })
            };
            for input in &anchors {
                check(input).map_err(|why| fail(why, input))?;
            }
            // The closure of a runner must not mutate its captures, hence the cell.
            let check = RefCell::new(check);
            runner(label, plan)
                .run(&inputs, |input| {
                    (check.borrow_mut())(&input).map_err(TestCaseError::fail)
                })
                .map_err(|error| match error {
                    TestError::Fail(why, input) => fail(why.to_string(), &input),
                    TestError::Abort(why) => Box::new(Failure {
                        why: why.to_string(),
                        input: "none".into(),
                        case: None,
                    }),
                })?;
            if !forced {
                return Err(Box::new(Failure {
                    why: "no input showed what this encoding is there to force".into(),
                    input: "all".into(),
                    case: None,
                }));
            }
            Ok(())
        };
        Self {
            label: label.into(),
            run: Box::new(run),
        }
    }

    /// Runs the cases until one is not decoded correctly.
    fn run(&self, plan: &Plan, judge: Judge) -> Result<(), Box<Failure>> {
        (self.run)(&self.label, plan, judge)
    }
}

/// Returns a runner whose inputs depend only on the label and the seed.
fn runner(label: &str, plan: &Plan) -> TestRunner {
    let seed = Sha256::new()
        .chain_update(plan.seed.to_le_bytes())
        .chain_update(label)
        .finalize();
    let config = Config {
        cases: plan.cases,
        max_shrink_iters: 400,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}
