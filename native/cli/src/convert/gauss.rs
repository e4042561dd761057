//! Options and messages of conversions to Gauss (docs/formats/gauss.md 13).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;
use zstn::convert::{GaussPlan, GaussWatch};
use zstn::{Error, Result};
use zstn_core::container::foreign::gauss::{
    self, Components, OtherDtypes, RawReason, TensorReport,
};

use super::super::{say, size, table};

/// The ratio of half a quantisation step to the standard deviation above which a
/// warning is printed.
const LARGE_SHARE: f64 = 0.05;

#[derive(Args)]
pub struct GaussOptions {
    /// Accept that values change by up to 0.0005, and bfloat16 values by up to 1/256
    #[arg(long)]
    lossy: bool,
    /// Gaussians in a mixture, 2 to 255, or `auto` for the smallest result
    /// [default: 16]
    #[arg(long = "K", value_name = "N", value_parser = components)]
    components: Option<Components>,
    /// Maximum number of iterations of a fit [default: 100]
    #[arg(long, value_name = "N")]
    max_iter: Option<u32>,
    /// Number of elements above which a tensor is split into shards [default: 5000000]
    #[arg(long, value_name = "N")]
    shard_threshold: Option<u64>,
    /// Rows per shard [default: 4096]
    #[arg(long, value_name = "N")]
    shard_rows: Option<u32>,
    /// Number of elements below which a tensor is stored raw [default: 32768]
    #[arg(long, value_name = "N")]
    raw_threshold: Option<u64>,
    /// Code only these tensors, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    layers: Option<Vec<String>>,
    /// Store dtypes that Gauss lacks as signed integers of the same width, with
    /// unchanged bytes
    #[arg(long)]
    as_signed: bool,
}

fn components(text: &str) -> Result<Components, String> {
    if text == "auto" {
        return Ok(Components::Smallest);
    }
    let count = text.parse().map(Components::Exactly);
    count.map_err(|_| "a number from 2 to 255, or `auto`".to_owned())
}

impl GaussOptions {
    pub fn options(&self) -> Result<gauss::GaussOptions> {
        if !self.lossy {
            return Err(Error::Usage(
                "Gauss files are lossy: values change by up to 0.0005, bfloat16 by up to 1/256 \
                 (0.0039), however small they are; use --lossy to accept that"
                    .into(),
            ));
        }
        let usual = gauss::GaussOptions::default();
        Ok(gauss::GaussOptions {
            components: self.components.unwrap_or(usual.components),
            max_iterations: self.max_iter.unwrap_or(usual.max_iterations),
            shard_threshold: self.shard_threshold.unwrap_or(usual.shard_threshold),
            shard_rows: self.shard_rows.unwrap_or(usual.shard_rows),
            raw_threshold: self.raw_threshold.unwrap_or(usual.raw_threshold),
            layers: self.layers.clone(),
            other_dtypes: match self.as_signed {
                true => OtherDtypes::AsSigned,
                false => OtherDtypes::Refuse,
            },
            ..usual
        })
    }

    /// Returns the names of all options and whether they were given.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, bool)> + use<> {
        [
            ("--lossy", self.lossy),
            ("--K", self.components.is_some()),
            ("--max-iter", self.max_iter.is_some()),
            ("--shard-threshold", self.shard_threshold.is_some()),
            ("--shard-rows", self.shard_rows.is_some()),
            ("--raw-threshold", self.raw_threshold.is_some()),
            ("--layers", self.layers.is_some()),
            ("--as-signed", self.as_signed),
        ]
        .into_iter()
    }
}

/// An observer that prints a line for every finished tensor.
pub struct Lines {
    threads: usize,
    silent: bool,
    plan: OnceLock<GaussPlan>,
    done: AtomicUsize,
}

impl Lines {
    pub fn new(threads: usize, silent: bool) -> Self {
        Self {
            threads,
            silent,
            plan: OnceLock::new(),
            done: AtomicUsize::new(0),
        }
    }

    fn say(&self, line: &str) {
        if !self.silent {
            say!("{line}");
        }
    }
}

impl GaussWatch for Lines {
    fn begin(&self, plan: GaussPlan) {
        let GaussPlan {
            coded,
            sharded,
            shards,
            raw,
            ..
        } = *self.plan.get_or_init(|| plan);
        self.say(&format!(
            "{coded} tensors to code ({sharded} sharded), {raw} raw, {shards} tasks on {} threads",
            self.threads
        ));
    }

    fn done(&self, report: &TensorReport, time: Duration) {
        let name = &report.name;
        if let Some(RawReason::Small | RawReason::Integers) = report.raw {
            return self.say(&format!("{:>11} {name}", "[raw]"));
        }
        let all = self.plan.get().map_or(0, |plan| plan.coded);
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let result = match report.raw {
            Some(reason) => format!("raw: {}", words(reason)),
            None => format!(
                "{}  iter {:>3}  error {:.2e}{}",
                size::ratio(report.len_bytes, report.stored_len_bytes),
                report.shards.first().map_or(0, |shard| shard.iterations),
                report.max_error,
                match report.shards.len() {
                    1 => String::new(),
                    count => format!("  [{count} shards]"),
                }
            ),
        };
        self.say(&format!(
            "[{done:>4}/{all:<4}] {name:<46}  {result}  {:.1} s",
            time.as_secs_f64()
        ));
    }
}

fn words(reason: RawReason) -> &'static str {
    match reason {
        RawReason::Small => "small",
        RawReason::Integers => "not a float",
        RawReason::NotFinite => "NaN or infinity in it",
        RawReason::OutOfReach => "values too far apart",
        RawReason::Smaller => "larger when coded",
        other => other.code(),
    }
}

/// Returns half a quantisation step of a tensor's values: the error bound stated in the
/// file, before rounding to the dtype.
fn bound(report: &TensorReport) -> f64 {
    let steps = report.shards.iter().map(|shard| shard.scale).min();
    0.5 / f64::from(steps.unwrap_or(1))
}

/// Returns the tensors whose error may be a large fraction of their standard deviation,
/// the worst first.
fn coarse(tensors: &[TensorReport]) -> Vec<&TensorReport> {
    let share = |report: &TensorReport| bound(report) / report.deviation;
    let mut coarse: Vec<&TensorReport> = tensors
        .iter()
        .filter(|report| report.raw.is_none() && report.max_error > 0.0)
        .filter(|report| share(report) >= LARGE_SHARE)
        .collect();
    coarse.sort_by(|a, b| share(b).total_cmp(&share(a)));
    coarse
}

/// Returns the tensor with the largest error.
fn worst(tensors: &[TensorReport]) -> Option<&TensorReport> {
    let coded = tensors.iter().filter(|report| report.raw.is_none());
    coded.max_by(|a, b| a.max_error.total_cmp(&b.max_error))
}

/// Prints the summary.
pub fn say(tensors: &[TensorReport]) {
    let coded = || tensors.iter().filter(|report| report.raw.is_none());
    let bytes: u64 = coded().map(|report| report.stored_len_bytes).sum();
    let elements: u64 = coded().map(|report| report.element_count).sum();
    let mut facts = vec![(
        "coded",
        format!(
            "{} of {}",
            coded().count(),
            super::pack::count(tensors.len(), "tensor")
        ),
    )];
    if let Some(worst) = worst(tensors) {
        facts.push((
            "bits",
            format!("{:.3} per element", bytes as f64 * 8.0 / elements as f64),
        ));
        facts.push((
            "error",
            format!("{:.3e} at most, in {}", worst.max_error, worst.name),
        ));
    }
    for line in table::facts(&facts) {
        say!("{line}");
    }
    let coarse = coarse(tensors);
    if let Some(first) = coarse.first() {
        say!(
            "warning: the steps are coarse for {} of these tensors: half of one is over a \
             twentieth of their standard deviation, most in {} ({}), {:.1e} of {:.1e}; see whether the model \
             still works",
            coarse.len(),
            first.name,
            first.dtype,
            bound(first),
            first.deviation,
        );
    }
}

/// Returns the summary as JSON.
pub fn json(tensors: &[TensorReport]) -> serde_json::Value {
    let all = tensors.iter().map(|report| {
        let shards = report.shards.iter().map(|shard| {
            serde_json::json!({
                "components": shard.components,
                "added": shard.added,
                "iterations": shard.iterations,
                "scale": shard.scale,
                "max_error": shard.max_error,
            })
        });
        serde_json::json!({
            "name": report.name,
            "dtype": report.dtype.name(),
            "elements": report.element_count,
            "original_bytes": report.len_bytes,
            "packed_bytes": report.stored_len_bytes,
            "raw": report.raw.map(RawReason::code),
            "max_error": report.max_error,
            "rms_error": report.rms_error,
            "deviation": report.deviation,
            "shards": shards.collect::<Vec<_>>(),
        })
    });
    let coarse = coarse(tensors).into_iter().map(|report| &report.name);
    serde_json::json!({
        "max_error": worst(tensors).map_or(0.0, |report| report.max_error),
        "coarse": coarse.collect::<Vec<_>>(),
        "tensors": all.collect::<Vec<_>>(),
    })
}
