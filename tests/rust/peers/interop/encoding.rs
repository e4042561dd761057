//! An encoder under test: a transform, method or format that is forced on any input.

use std::cell::RefCell;
use std::fmt;
use std::sync::OnceLock;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use sha2::{Digest, Sha256};
use zstn::Engine;
use zstn_core::container::model_delta::{Base, ModelDelta};
use zstn_core::container::zstn as container;
use zstn_core::frame::decompress;
use zstn_core::frame::delta::Delta;

/// The public function of z4ai that decodes a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
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
    pub fn name(self) -> &'static str {
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
pub struct Case {
    pub call: Call,
    pub original: Vec<u8>,
    /// The base buffer or base checkpoint of a delta; empty for other cases.
    pub reference: Vec<u8>,
    pub encoded: Vec<u8>,
    /// True if the bytes show that the forced codec was used. Encoders store input that
    /// they cannot compress.
    pub forced: bool,
}

impl Case {
    pub fn frame(original: Vec<u8>, encoded: Vec<u8>) -> Self {
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
pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(2).expect("two threads"))
}

/// The number of random cases and their seed.
pub struct Plan {
    pub cases: u32,
    pub seed: u64,
}

/// An error, and the smallest case that causes it.
pub struct Failure {
    pub why: String,
    pub input: String,
    pub case: Option<Case>,
}

/// A decoder of cases, which returns the reason if it refuses one.
pub type Judge<'a> = &'a mut dyn FnMut(&str, &Case) -> Result<(), String>;
type Run = dyn Fn(&str, &Plan, Judge) -> Result<(), Box<Failure>>;

/// An encoder with its inputs.
pub struct Encoding {
    pub label: String,
    run: Box<Run>,
}

impl Encoding {
    /// Creates an encoding that applies `encode` to all `anchors` and to the requested
    /// number of random `inputs`.
    pub fn new<I>(
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
    pub fn run(&self, plan: &Plan, judge: Judge) -> Result<(), Box<Failure>> {
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
