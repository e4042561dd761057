//! `zstn ls`: lists the tensors of a file.

use std::borrow::Cow;

use clap::Args;
use serde::{Serialize, Serializer};
use zstn::source::HttpOptions;
use zstn::{Error, Location, Reader, Result};
use zstn_core::catalog::{BaseUse, FileCatalog};
use zstn_core::model::{Model, Piece, StoredPart, TensorInfo, Unpacked};
use zstn_core::statistics::Figures;

use super::arguments::{self, Model as Opening, Report};
use super::network::Network;
use super::pack::count;
use super::selection::Selection;
use super::terminal::Stdout;
use super::{Outcome, checkpoints, each, print, say, size, table, tree};

#[derive(Args)]
pub struct Options {
    /// Files of any kind, .index.json of sharded checkpoints, or local folders: paths,
    /// addresses, or - for standard input
    #[arg(required = true, value_name = "INPUT", value_parser = arguments::location())]
    inputs: Vec<Location>,
    #[command(flatten)]
    model: Opening,
    #[command(flatten)]
    selection: Selection,
    /// Show names as a tree, with the sums of each branch
    #[arg(long, conflicts_with_all = ["stats", "json"])]
    tree: bool,
    /// Depth of the tree; deeper branches are summed
    #[arg(long, value_name = "N", requires = "tree")]
    depth: Option<usize>,
    /// Show the statistics that were stored when the file was packed
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    pub report: Report,
    #[command(flatten)]
    network: Network,
}

pub fn run(options: &Options) -> Outcome {
    let http = options.network.options(&options.inputs)?;
    let http = options.report.watch(http);
    let inputs = checkpoints(&options.inputs);
    each(inputs.iter(), options.report.json, |input| {
        if inputs.len() > 1 && !options.report.json {
            print(format!("{input}:"))?;
        }
        one(options, &http, input)
    })
}

fn one(options: &Options, http: &HttpOptions, input: &Location) -> Result<()> {
    let reader = options.model.open(input, http, None)?;
    let model = reader.model();
    let packed = reader.packed_file();
    let packed_bytes = packed.map_or(model.len_bytes(), FileCatalog::len_bytes);
    let original_bytes = size::original_bytes(model, packed);
    let chosen = options.selection.of(&reader)?;
    let tensors = || chosen.iter().map(|number| &model.tensors()[*number]);
    let summaries = match options.stats {
        true => Some(reader.summaries()?),
        false => None,
    };
    if options.report.json {
        let mut out = Stdout::new();
        out.json(&List {
            input: &input.to_string(),
            kind: packed.map_or(model.kind(), FileCatalog::kind).name(),
            files: reader.sources().iter().map(|s| s.name()).collect(),
            original_bytes,
            packed_bytes,
            refused: Refused(model),
            tensors: Tensors {
                model,
                places: Places::of(&reader)?,
                chosen: &chosen,
                summaries: summaries.as_deref(),
            },
        })?;
        return out.finish();
    }
    if let Some(summaries) = &summaries {
        let headings = [
            "name", "dtype", "shape", ">min", ">max", ">mean", ">rms", ">zeros", ">nan", ">inf",
        ];
        let rows = || {
            chosen
                .iter()
                .map(|n| (&model.tensors()[*n], &summaries[*n]))
        };
        table::print(headings, || {
            rows().map(|(t, figures)| figures_row(t, figures.as_ref()))
        })?;
    } else if options.tree {
        tree::print(tensors(), options.depth)?;
    } else if !chosen.is_empty() {
        let headings = ["name", "dtype", "shape", ">size", ">stored", ">ratio", ""];
        table::print(headings, || tensors().map(|tensor| row(model, tensor)))?;
    }
    for (name, refusal) in model.refused() {
        say!("warning: {name} cannot be read: {refusal}");
    }
    if !options.report.quiet {
        let (counted, original, packed) = match options.selection.is_partial() {
            false => (
                count(model.tensors().len(), "tensor"),
                original_bytes,
                packed_bytes,
            ),
            true => (
                format!(
                    "{} of {}",
                    chosen.len(),
                    count(model.tensors().len(), "tensor")
                ),
                tensors().map(TensorInfo::original_len_bytes).sum(),
                tensors().map(tree::own_stored_bytes).sum(),
            ),
        };
        say!(
            "{counted}, {} in {} ({})",
            size::bytes(original),
            size::bytes(packed),
            size::ratio(original, packed),
        );
    }
    Ok(())
}

/// Returns the row of a tensor in the table.
fn row<'a>(model: &'a Model, tensor: &'a TensorInfo) -> [Cow<'a, str>; 7] {
    let alias_of = tensor.alias_of.map(|target| &model.tensors()[target]);
    let (stored, ratio) = match alias_of {
        Some(_) => ("–".into(), "–".into()),
        None => (
            size::bytes(tensor.stored_share_bytes()),
            size::ratio(tensor.original_len_bytes(), tensor.stored_share_bytes()),
        ),
    };
    [
        tensor.name.as_str().into(),
        tensor.dtype.to_string().into(),
        table::shape(&tensor.shape).into(),
        size::bytes(tensor.original_len_bytes()).into(),
        stored.into(),
        ratio.into(),
        match (alias_of, tensor.format(), tensor.base_use().map(of_base)) {
            (Some(target), ..) => format!("= {}", table::shortened(&target.name)).into(),
            (None, Some(format), Some(base)) => format!("{format} {base}").into(),
            (None, format, base) => format.or(base).unwrap_or_default().into(),
        },
    ]
}

/// Returns the use of the base as the table shows it.
fn of_base(base: BaseUse) -> &'static str {
    match base {
        BaseUse::Copy => "= base",
        BaseUse::Delta => "from base",
    }
}

/// Returns the row of a tensor in the table of statistics.
fn figures_row<'a>(tensor: &'a TensorInfo, figures: Option<&Figures>) -> [Cow<'a, str>; 10] {
    let figure = |of: fn(&Figures) -> String| figures.map_or("–".into(), |f| of(f).into());
    let count =
        |of: fn(&Figures) -> u64| figures.map_or("–".into(), |f| of(f).to_string().into());
    [
        tensor.name.as_str().into(),
        tensor.dtype.to_string().into(),
        table::shape(&tensor.shape).into(),
        figure(|f| short(f.min)),
        figure(|f| short(f.max)),
        figure(|f| short(f.mean)),
        figure(|f| short(f.rms)),
        count(|f| f.zeros),
        count(|f| f.nans),
        count(|f| f.infinities),
    ]
}

/// Returns a number with few digits, or a dash for NaN.
fn short(figure: f64) -> String {
    let magnitude = figure.abs();
    if figure.is_nan() {
        "–".into()
    } else if figure == 0.0 || (1e-3..1e6).contains(&magnitude) {
        let text = format!("{figure:.5}");
        text.trim_end_matches('0').trim_end_matches('.').into()
    } else {
        format!("{figure:.3e}")
    }
}

/// The list as JSON. It is serialized entry by entry, because it may have millions of
/// tensors.
#[derive(Serialize)]
struct List<'a> {
    input: &'a str,
    kind: &'a str,
    files: Vec<&'a str>,
    original_bytes: u64,
    packed_bytes: u64,
    refused: Refused<'a>,
    tensors: Tensors<'a>,
}

struct Refused<'a>(&'a Model);

impl Serialize for Refused<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.refused().map(|(name, refusal)| {
            serde_json::json!({
                "name": name,
                "message": refusal.to_string(),
            })
        }))
    }
}

/// The places of tensors in the files that [`List::files`] names.
enum Places<'a> {
    /// The parts of a tensor are ranges of these files.
    OfParts,
    /// The parts of a tensor are ranges of the file that a packed one restores.
    InPacked { packed: &'a Model, layout: Unpacked },
}

impl<'a> Places<'a> {
    fn of(reader: &'a Reader) -> Result<Self> {
        let Some(packed) = reader.packed() else {
            return Ok(Self::OfParts);
        };
        let layout = packed.model().unpacked();
        Ok(Self::InPacked {
            packed: packed.model(),
            layout: layout.map_err(Error::place(packed.name()))?,
        })
    }

    /// Returns the stored parts of a tensor. A tensor that lies in several entries of a
    /// packed file has none.
    fn parts(&self, tensor: &'a TensorInfo) -> &[StoredPart] {
        let Self::InPacked { packed, layout } = self else {
            return &tensor.parts;
        };
        let [part] = &tensor.parts[..] else {
            return &[];
        };
        match layout.pieces(part.stored.clone()).next() {
            Some(Piece::Tensor { number, bytes })
                if bytes.end - bytes.start == part.stored.end - part.stored.start =>
            {
                packed
                    .tensors()
                    .get(number)
                    .map_or(&[], |entry| &entry.parts)
            }
            _ => &[],
        }
    }
}

struct Tensors<'a> {
    model: &'a Model,
    places: Places<'a>,
    chosen: &'a [usize],
    summaries: Option<&'a [Option<Figures>]>,
}

impl Serialize for Tensors<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let statistics = |number: usize| {
            let all = self.summaries?;
            Some(all[number].as_ref().map(figures_json))
        };
        serializer.collect_seq(self.chosen.iter().map(|&number| Entry {
            statistics: statistics(number),
            ..Entry::new(self.model, number, &self.places)
        }))
    }
}

/// A tensor as JSON.
#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    dtype: &'a str,
    shape: &'a [u64],
    original_bytes: u64,
    packed_bytes: u64,
    alias_of: Option<&'a str>,
    base: Option<&'a str>,
    format: Option<&'a str>,
    digest: Option<String>,
    parts: Vec<Stored>,
    /// The statistics, if requested; `Some(None)` for a tensor without statistics.
    #[serde(skip_serializing_if = "Option::is_none")]
    statistics: Option<Option<serde_json::Value>>,
}

fn figures_json(figures: &Figures) -> serde_json::Value {
    // JSON has no NaN, so extremes and means without finite elements become null.
    serde_json::json!({
        "elements": figures.count,
        "min": figures.min,
        "max": figures.max,
        "mean": figures.mean,
        "rms": figures.rms,
        "zeros": figures.zeros,
        "nans": figures.nans,
        "infinities": figures.infinities,
    })
}

#[derive(Serialize)]
struct Stored {
    file: usize,
    offset: u64,
    packed_bytes: u64,
}

impl<'a> Entry<'a> {
    fn new(model: &'a Model, number: usize, places: &Places<'a>) -> Self {
        let tensor = &model.tensors()[number];
        let digest = model.tensor_digest(number);
        let parts = places.parts(tensor).iter().map(|part| Stored {
            file: part.file,
            offset: part.stored.start,
            packed_bytes: part.len_bytes(),
        });
        let alias_of = tensor.alias_of.map(|target| &model.tensors()[target]);
        Self {
            name: &tensor.name,
            dtype: tensor.dtype.name(),
            shape: &tensor.shape,
            original_bytes: tensor.original_len_bytes(),
            packed_bytes: tensor.stored_share_bytes(),
            alias_of: alias_of.map(|target| target.name.as_str()),
            base: tensor.base_use().map(BaseUse::name),
            format: tensor.format(),
            digest: digest.map(|digest| format!("{:032x}", u128::from_be_bytes(digest))),
            parts: parts.collect(),
            statistics: None,
        }
    }
}
