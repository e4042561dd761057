//! `zstn diff`: states which tensors of two models differ, and by how much.

use std::borrow::Cow;

use clap::Args;
use serde_json::{Value, json};
use zstn::{DiffOptions, DiffReport, Job, Location, TensorDiff};

use super::arguments::{self, Report, Stored, Threads};
use super::base_options::Bases;
use super::network::{FullDownload, Network};
use super::pack::{count, list};
use super::progress::Direction;
use super::{Failure, Outcome, print, progress, say, table};

#[derive(Args)]
pub struct Options {
    /// The first model, such as the base of a fine-tune: a file of any kind, the
    /// .index.json of a sharded checkpoint, or a folder: a path or an address
    #[arg(value_name = "FIRST", value_parser = arguments::location())]
    first: Location,
    /// The second model, of the same kind or another. A delta needs no --base if the
    /// first model is its base
    #[arg(value_name = "SECOND", value_parser = arguments::location())]
    second: Location,
    /// Do not measure changes: read only the tensors without digests
    #[arg(long)]
    no_figures: bool,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    stored: Stored,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    pub report: Report,
    #[command(flatten)]
    full_download: FullDownload,
    #[command(flatten)]
    network: Network,
}

impl Options {
    fn json(&self, report: &DiffReport) -> Value {
        let changed = report.changed.iter().map(|tensor| {
            let figures = tensor.difference.as_ref();
            let size = figures.and_then(|figures| figures.size);
            json!({
                "name": tensor.name,
                "dtypes": tensor.dtypes.map(|dtype| dtype.to_string()),
                "shapes": tensor.shapes,
                "changed_elements": figures.map(|figures| figures.changed),
                "lost_finite": figures.map(|figures| figures.lost_finite),
                "gained_finite": figures.map(|figures| figures.gained_finite),
                "relative_change": tensor.relative(),
                "max_change": size.map(|size| size.max_abs),
            })
        });
        let unreadable = report.unreadable.iter();
        let unreadable = unreadable.map(|(name, why)| json!({ "name": name, "message": why }));
        json!({
            "first": self.first.to_string(),
            "second": self.second.to_string(),
            "bases": self.bases.names(),
            "is_equal": report.is_equal(),
            "elements": report.elements,
            "changed_elements": report.changed_elements(),
            "equal_tensors": report.equal,
            "equal_unread": report.equal_unread,
            "changed": changed.collect::<Vec<_>>(),
            "only_in_first": report.only_in_first,
            "only_in_second": report.only_in_second,
            "unreadable": unreadable.collect::<Vec<_>>(),
            "changed_metadata": report.metadata,
        })
    }

    fn say(&self, report: &DiffReport) {
        let Self { first, second, .. } = self;
        for (names, place) in [
            (&report.only_in_first, first),
            (&report.only_in_second, second),
        ] {
            if !names.is_empty() {
                say!(
                    "only in {place}: {} ({})",
                    count(names.len(), "tensor"),
                    list(names)
                );
            }
        }
        for (name, why) in &report.unreadable {
            say!("warning: {name} cannot be compared: {why}");
        }
        if !report.metadata.is_empty() {
            say!("different metadata: {}", list(&report.metadata));
        }
        let compared = count(report.compared(), "tensor");
        let share = match report.changed_elements() {
            Some(changed) if changed > 0 => {
                format!(", {} of all elements", percent(changed, report.elements))
            }
            _ => String::new(),
        };
        let equal = equal(report);
        match report.changed.len() {
            0 if report.compared() == 0 => say!("no tensor of one has the name of another"),
            0 if report.is_equal() => say!("{first} and {second} are equal: {equal}"),
            0 => say!("no change in the tensors that both have: {equal}"),
            changed => say!("{changed} of {compared} changed{share}; {equal}"),
        }
    }
}

/// Describes the equal tensors, and how that is known.
fn equal(report: &DiffReport) -> String {
    let all = count(report.equal, "tensor");
    match report.equal_unread {
        0 => format!("{all} equal, compared byte by byte"),
        unread if unread == report.equal => format!("{all} equal, as the files state"),
        unread => format!("{all} equal, of which {unread} as the files state"),
    }
}

/// Returns a share such as `7.7 %`. It is only 0 or 100 % if that is exact.
fn percent(part: u64, whole: u64) -> String {
    let share = 100.0 * part as f64 / whole.max(1) as f64;
    match share {
        _ if part == 0 => "0 %".into(),
        _ if part >= whole => "100 %".into(),
        share if share < 0.001 => "<0.001 %".into(),
        share if share < 1.0 => format!("{share:.3} %"),
        share => format!("{:.1} %", share.min(99.9)),
    }
}

/// Returns a number with three digits, such as `0.0123` or `1.23e-7`; a dash if it is
/// unknown.
fn figure(value: Option<f64>) -> Cow<'static, str> {
    match value {
        None => "–".into(),
        Some(0.0) => "0".into(),
        Some(value) if (1e-4..1e4).contains(&value) => {
            // The cast yields the number of digits before the point, from -3 to 4.
            #[allow(clippy::cast_possible_truncation)]
            let digits = value.log10().floor() as i32;
            let places = usize::try_from(2 - digits).unwrap_or(0);
            format!("{value:.places$}").into()
        }
        Some(value) => format!("{value:.2e}").into(),
    }
}

fn row(tensor: &TensorDiff) -> [Cow<'_, str>; 7] {
    let figures = tensor.difference.as_ref();
    let size = figures.and_then(|figures| figures.size);
    let both = |[first, second]: [String; 2]| match first == second {
        true => first,
        false => format!("{first} → {second}"),
    };
    let [before, after] = &tensor.shapes;
    let mut notes = Vec::new();
    if let Some(figures) = figures {
        if figures.lost_finite > 0 {
            notes.push(format!("{} became NaN or infinite", figures.lost_finite));
        }
        if figures.gained_finite > 0 {
            notes.push(format!("{} became finite", figures.gained_finite));
        }
    }
    [
        tensor.name.as_str().into(),
        both(tensor.dtypes.map(|dtype| dtype.to_string())).into(),
        both([table::shape(before), table::shape(after)]).into(),
        figures.map_or("–".into(), |f| percent(f.changed, f.elements).into()),
        figure(tensor.relative()),
        figure(size.map(|size| size.max_abs)),
        notes.join(", ").into(),
    ]
}

pub fn run(options: &Options) -> Outcome {
    let inputs = [options.first.clone(), options.second.clone()];
    let http = options.network.options(&inputs)?;
    let http = options.full_download.add_to(options.report.watch(http));
    let bar = progress::watch("comparing", Direction::Reading, options.report);
    let job = Job::new().engine(&options.threads.engine()?).http(http);
    let comparing = DiffOptions::default().view(options.stored.view());
    let comparing = comparing.figures(!options.no_figures);
    let comparing = options.bases.add_to(comparing, |o, base| o.base(base));
    let [first, second] = &inputs;
    let report = zstn::diff(&job.progress(&bar), first, second, &comparing);
    drop(bar);
    let report = report?;
    if options.report.json {
        print(options.json(&report))?;
    } else {
        if !report.changed.is_empty() {
            let headings = [
                "name",
                "dtype",
                "shape",
                ">changed",
                ">relative",
                ">largest",
                "",
            ];
            table::print(headings, || report.changed.iter().map(row))?;
        }
        if !options.report.quiet {
            options.say(&report);
        }
    }
    match report.is_equal() {
        true => Ok(()),
        false => Err(Failure::Reported(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_only_whole_if_they_are_exact() {
        assert_eq!(percent(0, 10), "0 %");
        assert_eq!(percent(10, 10), "100 %");
        assert_eq!(percent(999_999, 1_000_000), "99.9 %");
        assert_eq!(percent(1, 1_000_000_000), "<0.001 %");
        assert_eq!(percent(77, 1000), "7.7 %");
    }

    #[test]
    fn figures_have_three_digits() {
        for (value, text) in [
            (0.012_345, "0.0123"),
            (1.0, "1.00"),
            (123.4, "123"),
            (1.5e-7, "1.50e-7"),
            (2e300, "2.00e300"),
        ] {
            assert_eq!(figure(Some(value)), text);
        }
        assert_eq!(figure(None), "–");
    }
}
