//! `zstn get`: reads one tensor.

use std::collections::HashSet;
use std::io::IsTerminal;

use clap::Args;
use zstn::internals::Output;
use zstn::source::HttpOptions;
use zstn::{Error, Location, Reader, Result, RowsPlan, Selection, Source, Tensor};

use super::arguments::{self, Destination, Model, Overwrite, Report, Threads};
use super::elements::Stats;
use super::network::Network;
use super::pack::count;
use super::pattern::Pattern;
use super::selection::{AxisBounds, RowBounds, matching, plan_rows, rows_cost};
use super::terminal::Stdout;
use super::{print, say, size, table, terminal};
use format::{Described, Format};

mod format;

#[derive(Args)]
pub struct Options {
    /// A file of any kind, the .index.json of a sharded checkpoint, or a local folder:
    /// a path, an address, or - for standard input
    #[arg(value_parser = arguments::location())]
    input: Location,
    /// Tensor names, as `zstn ls` prints them, or patterns like 'layers.3.*'
    /// [default: the tensor of a file that has only one]
    #[arg(value_name = "NAME")]
    names: Vec<Pattern>,
    /// Read only these rows (slices of the first dimension): a row like 5, or a range
    /// like 100..200 or 100:200 that excludes its end; either bound may be omitted, and
    /// negative bounds count from the end
    #[arg(long, value_name = "A..B", allow_hyphen_values = true)]
    rows: Option<RowBounds>,
    /// Read only a part, with an entry for each axis, outermost first, separated by
    /// commas, like 10:20,:,7 – : is a whole axis, and a single index drops its axis;
    /// the last axes may be omitted
    #[arg(
        long,
        value_name = "A:B,…",
        allow_hyphen_values = true,
        conflicts_with = "rows"
    )]
    select: Option<AxisBounds>,
    /// Output file: .npy (BF16 becomes float32, since NumPy lacks it), .safetensors
    /// (also for several tensors), or .bin, .raw or no extension for raw bytes; - for
    /// raw bytes on standard output [default: a summary on a terminal, raw bytes to a
    /// file or pipe]
    #[arg(short, long, value_parser = arguments::destination())]
    output: Option<Destination>,
    #[command(flatten)]
    model: Model,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    overwrite: Overwrite,
    /// Print the summary even if standard output is not a terminal
    #[arg(long, conflicts_with = "output")]
    summary: bool,
    #[command(flatten)]
    pub report: Report,
    #[command(flatten)]
    network: Network,
}

/// The destination of the bytes of a tensor.
enum Target<'a> {
    Nowhere,
    Stdout,
    File(Output<'static>, &'a Destination, Format),
}

impl Options {
    fn target(&self, http: &HttpOptions) -> Result<Target<'_>> {
        Ok(match &self.output {
            Some(Destination::Stdout) => {
                terminal::refuse_binary(self.overwrite.force)?;
                Target::Stdout
            }
            Some(destination) => {
                let format = Format::of(&destination.path().unwrap_or_default())?;
                Target::File(
                    self.overwrite.begin(destination, http)?,
                    destination,
                    format,
                )
            }
            None if self.report.json || self.summary || std::io::stdout().is_terminal() => {
                Target::Nowhere
            }
            None => Target::Stdout,
        })
    }
}

pub fn run(options: &Options) -> Result<()> {
    let input = std::slice::from_ref(&options.input);
    let output = options.output.as_slice();
    let http = options.network.options_for(input, output)?;
    let http = options.report.watch(http);
    let mut target = options.target(&http)?;
    let engine = options.threads.engine()?;
    let names: Vec<&str> = options.names.iter().map(Pattern::text).collect();
    let model = &options.model;
    let reader = model.open_only(&options.input, &names, &http, Some(&engine))?;
    let wanted = options.wanted(&reader)?;
    if let Target::File(output, _, format) = &mut target {
        for wanted in &wanted {
            format.check(reader.find(&wanted.name)?.dtype)?;
        }
        let sources: Vec<&dyn Source> = reader.all_sources().collect();
        output.check_inputs(&sources)?;
    }
    match (&wanted[..], target) {
        ([wanted], target) => one(options, &reader, wanted, target),
        (_, Target::Stdout) => Err(Error::Usage(
            "several tensors do not go to standard output: name a .safetensors file with -o, or \
             use --summary"
                .into(),
        )),
        (all, Target::File(output, path, format)) => {
            format.check_several()?;
            several(options, &reader, all, output, path)
        }
        (all, Target::Nowhere) => {
            for (number, wanted) in all.iter().enumerate() {
                if number > 0 && !options.report.json {
                    print("")?;
                }
                one(options, &reader, wanted, Target::Nowhere)?;
            }
            Ok(())
        }
    }
}

/// A tensor to read, or a part of it.
struct Wanted {
    name: String,
    part: Part,
}

/// The part of a tensor to read.
enum Part {
    Whole,
    Rows(Box<RowsPlan>),
    /// Selected elements, and the shape in which they are returned.
    Elements(Selection, Vec<u64>),
}

impl Wanted {
    fn read(&self, reader: &Reader) -> Result<Tensor> {
        match &self.part {
            Part::Whole => reader.read(&self.name),
            Part::Rows(rows) => reader.read_planned(rows),
            Part::Elements(elements, shape) => {
                let mut tensor = reader.read_selection(elements)?;
                tensor.shape.clone_from(shape);
                Ok(tensor)
            }
        }
    }

    /// Returns the number of stored bytes that are read, in the base as well.
    fn fetched_len_bytes(&self, reader: &Reader) -> Result<u64> {
        match &self.part {
            Part::Whole => Ok(reader.find(&self.name)?.stored_len_bytes()),
            Part::Rows(rows) => {
                let fetched = rows.fetched_len_bytes();
                Ok(fetched.unwrap_or(rows.stored_len_bytes()))
            }
            Part::Elements(elements, _) => reader.fetched_len_bytes(elements),
        }
    }

    /// Returns a description of how much is fetched for a part.
    fn cost(&self, reader: &Reader) -> Result<Option<String>> {
        match &self.part {
            Part::Whole => Ok(None),
            Part::Rows(rows) => rows_cost(reader, rows).map(Some),
            Part::Elements(..) => {
                let stored = reader.find(&self.name)?.stored_len_bytes();
                let fetched = size::bytes(self.fetched_len_bytes(reader)?);
                Ok(Some(format!("{fetched} of {}", size::bytes(stored))))
            }
        }
    }

    fn described(&self, reader: &Reader) -> Result<Described> {
        let tensor = reader.find(&self.name)?;
        let (shape, len_bytes) = match &self.part {
            Part::Whole => (&tensor.shape[..], tensor.len_bytes()),
            Part::Rows(rows) => (rows.shape(), rows.span().end - rows.span().start),
            Part::Elements(elements, shape) => (&shape[..], elements.len_bytes()),
        };
        Ok(Described {
            name: self.name.clone(),
            dtype: tensor.dtype,
            shape: shape.to_vec(),
            len_bytes,
        })
    }
}

impl Options {
    /// Returns the requested tensors, each once.
    fn wanted(&self, reader: &Reader) -> Result<Vec<Wanted>> {
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        let count = reader.tensors().len();
        if self.names.is_empty() && count != 1 {
            return Err(Error::Usage(format!(
                "{} has {count} tensors; name one or several, or give '*' for all",
                reader.name()
            )));
        }
        let numbers = match self.names.is_empty() {
            true => vec![0],
            false => {
                let numbers = self.names.iter().map(|pattern| matching(reader, pattern));
                numbers.collect::<Result<Vec<_>>>()?.concat()
            }
        };
        for number in numbers {
            if !seen.insert(number) {
                continue;
            }
            let tensor = &reader.tensors()[number];
            let part = match (&self.rows, &self.select) {
                (Some(bounds), _) => Part::Rows(Box::new(plan_rows(reader, &tensor.name, bounds)?)),
                (_, Some(bounds)) => {
                    let (elements, shape) = bounds.of(tensor)?;
                    Part::Elements(elements, shape)
                }
                (None, None) => Part::Whole,
            };
            all.push(Wanted {
                name: tensor.name.clone(),
                part,
            });
        }
        Ok(all)
    }
}

/// Reads one tensor, and writes or describes it.
fn one(options: &Options, reader: &Reader, wanted: &Wanted, target: Target<'_>) -> Result<()> {
    let tensor = wanted.read(reader)?;
    match target {
        Target::Stdout => {
            let mut out = Stdout::new();
            out.bytes(&tensor.bytes)?;
            // Standard output contains the tensor, so no description is printed.
            return out.finish();
        }
        Target::File(output, path, format) => {
            format.write(&tensor, output)?;
            if !options.report.json {
                if !options.report.quiet {
                    match &*tensor.name {
                        "" => say!("{} → {path}", options.input),
                        name => say!("{name} → {path}"),
                    }
                    if let Some(note) = format.note(tensor.dtype) {
                        say!("note: {note}");
                    }
                }
                return Ok(());
            }
        }
        Target::Nowhere => {}
    }
    match options.report.json {
        true => print(json(options, reader, &tensor, wanted)?),
        false => summary(reader, &tensor, wanted),
    }
}

/// Writes several tensors to one file, and prints an object for each or a line for all.
fn several(
    options: &Options,
    reader: &Reader,
    all: &[Wanted],
    output: Output<'static>,
    path: &Destination,
) -> Result<()> {
    let described: Result<Vec<_>> = all.iter().map(|wanted| wanted.described(reader)).collect();
    let described = described?;
    let mut objects = Vec::new();
    format::write_several(&described, output, |number| {
        let tensor = all[number].read(reader)?;
        if options.report.json {
            objects.push(json(options, reader, &tensor, &all[number])?);
        }
        Ok(tensor)
    })?;
    objects.into_iter().try_for_each(print)?;
    if !options.report.is_silent() {
        let bytes = described.iter().map(|tensor| tensor.len_bytes).sum();
        let count = count(all.len(), "tensor");
        say!("{count} → {path}: {}", size::bytes(bytes));
    }
    Ok(())
}

/// Returns the description of a tensor as JSON.
fn json(
    options: &Options,
    reader: &Reader,
    tensor: &Tensor,
    wanted: &Wanted,
) -> Result<serde_json::Value> {
    let stats = Stats::of(tensor);
    let stored = reader.find(&tensor.name)?.stored_len_bytes();
    let output = options.output.as_ref();
    Ok(serde_json::json!({
        "input": options.input.to_string(),
        "name": tensor.name,
        "dtype": tensor.dtype.name(),
        "shape": tensor.shape,
        "original_bytes": tensor.bytes.len(),
        "min": stats.as_ref().map(|s| s.min),
        "max": stats.as_ref().map(|s| s.max),
        "mean": stats.as_ref().map(|s| s.mean),
        "first": stats.as_ref().map(|s| &s.first),
        "packed_bytes": stored,
        "fetched_bytes": wanted.fetched_len_bytes(reader)?,
        "output": output.map(Destination::to_string),
    }))
}

/// Prints the description of a tensor.
fn summary(reader: &Reader, tensor: &Tensor, wanted: &Wanted) -> Result<()> {
    let mut facts = vec![
        ("name", tensor.name.clone()),
        ("dtype", tensor.dtype.to_string()),
        ("shape", table::shape(&tensor.shape)),
        ("size", size::bytes(tensor.bytes.len() as u64)),
    ];
    if let Some(cost) = wanted.cost(reader)? {
        facts.push(("fetched", cost));
    }
    facts.extend(Stats::of(tensor).iter().flat_map(Stats::facts));
    table::print_facts(&facts)
}
