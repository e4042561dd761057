//! `--base`: the checkpoints that a delta needs, and `--base auto`, which finds them in a
//! folder.

use clap::builder::TypedValueParser;
use clap::{Arg, Args};
use serde_json::{Value, json};
use zstn::family::{self, BaseChoice, FamilyOptions, MIN_SAVING_PERCENT};
use zstn::{Error, Input, Job, Location, Result};

use super::arguments::{self, Report, location};
use super::pack::Extended;
use super::progress::Direction;
use super::{progress, say, size};

/// The chain of bases that a delta needs.
#[derive(Args)]
pub struct Bases {
    /// The checkpoint against which a delta is packed, plain or packed: a path or an
    /// address. If the base is a delta itself, name its base with another --base after
    /// it; if the file was packed against several, name all of them in the same order
    #[arg(id = "base", long = "base", value_name = "BASE", value_parser = base())]
    chain: Vec<Location>,
}

/// The value of `--base` that searches for a base when packing. A file of this name can
/// be given as `./auto`.
const AUTO: &str = "auto";

/// Parses a base and refuses `auto`.
fn base() -> impl TypedValueParser<Value = Location> {
    location().try_map(|base| match base == Location::from(AUTO) {
        true => Err(
            "only `zstn pack` looks for a base; give the one that the file was packed against \
             (for a file of this name, ./auto)",
        ),
        false => Ok(base),
    })
}

impl Bases {
    /// Changes `--base` for a verb that accepts `auto`.
    pub fn or_auto(argument: Arg) -> Arg {
        argument.value_parser(location()).help(
            "The checkpoint to store only the delta from, plain or packed: a path or an address. \
             If it is a delta itself, name its base with another --base after it. For a merged \
             model, name each of its sources with a --base. `auto` looks for the best one in --family",
        )
    }

    /// Returns whether `auto` is given, alone or with other bases.
    pub fn is_auto(&self) -> bool {
        self.chain.contains(&Location::from(AUTO))
    }

    /// Returns the number of bases given.
    pub fn count(&self) -> usize {
        self.chain.len()
    }

    /// Returns whether any base is given.
    pub fn is_some(&self) -> bool {
        !self.chain.is_empty()
    }

    /// Calls `add` for every base.
    pub fn add_to<T>(&self, options: T, add: impl Fn(T, Input) -> T) -> T {
        let bases = self.chain.iter();
        bases.fold(options, |options, base| add(options, base.into()))
    }

    /// Returns the names of the bases, for JSON.
    pub fn names(&self) -> Vec<String> {
        self.chain.iter().map(Location::to_string).collect()
    }
}

#[derive(Args)]
pub struct Family {
    /// With --base auto: the folder whose checkpoints may be the base, local or in an
    /// object store with a trailing slash, like s3://bucket/folder/. They are compared
    /// by sketches (NAME.sketch); if none would save 10 %, no base is used
    #[arg(id = "family", long = "family", value_name = "FOLDER", value_parser = arguments::location())]
    folder: Option<Location>,
    /// Save the sketches that --base auto computes next to the checkpoints
    #[arg(long)]
    save_sketches: bool,
}

impl Family {
    /// Refuses options that cannot be combined.
    pub fn check(&self, bases: &Bases) -> Result<()> {
        let refuse = |detail: &str| Err(Error::Usage(detail.into()));
        match (bases.is_auto(), &self.folder) {
            (true, _) if bases.count() > 1 => refuse(
                "--base auto finds the base and its own bases, and goes without another --base; \
                 for a file of this name, write --base ./auto",
            ),
            (true, None) => refuse(
                "--base auto needs the folder to look in, --family; for a file of this name, \
                 write --base ./auto",
            ),
            (false, Some(_)) => refuse("--family needs --base auto"),
            (false, None) if self.save_sketches => refuse("--save-sketches needs --base auto"),
            _ => Ok(()),
        }
    }

    /// Searches for the base of `input`, excluding the `others`, and prints the
    /// expected size.
    pub fn choose(
        &self,
        job: &Job,
        (input, others): (&Location, &[Location]),
        extended: Extended,
        report: Report,
    ) -> Result<BaseChoice> {
        let Some(folder) = &self.folder else {
            return Err(Error::Usage("--base auto needs --family".into()));
        };
        let bar = progress::watch("sketching", Direction::Reading, report);
        let options = FamilyOptions::default()
            .extended(extended.is_set())
            .save_sketches(self.save_sketches);
        let others = others.iter().filter(|other| *other != input);
        let options = others.fold(options, FamilyOptions::exclude);
        let choice = family::choose(&job.clone().progress(&bar), input, folder, &options);
        drop(bar);
        let choice = choice?;
        if report.verbose {
            say_compared(&choice);
        }
        if report.verbose || !report.is_silent() {
            say_choice(&choice, extended);
        }
        Ok(choice)
    }

    /// Returns the `family` entry of the `--json` output.
    pub fn json(&self, choice: &BaseChoice) -> Value {
        let base = choice.base.as_ref();
        let named = |list: &[(String, String)]| -> Vec<Value> {
            let list = list.iter();
            list.map(|(name, reason)| json!({ "name": name, "message": reason }))
                .collect()
        };
        json!({
            "location": self.folder.as_ref().map(Location::to_string),
            "candidates": choice.compared,
            "expected_bytes": base.map_or(choice.plain, |base| base.estimate).packed_bytes,
            "expected_plain_bytes": choice.plain.packed_bytes,
            "left_out": named(&choice.left_out),
            "unsaved_sketches": named(&choice.unsaved),
            "saved_sketches": choice.saved.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        })
    }
}

/// Returns the names of the base and of its own bases.
pub fn chosen_names(choice: &BaseChoice) -> Vec<String> {
    let chain = choice.base.iter().flat_map(|base| &base.chain);
    chain.map(Location::to_string).collect()
}

/// Prints the compared checkpoints and the saved sketches.
fn say_compared(choice: &BaseChoice) {
    let compared = super::pack::count(choice.compared, "checkpoint");
    match &choice.base {
        Some(base) if base.sources > 1 => {
            say!("{} together are the nearest of {compared}", base.name);
        }
        Some(base) => say!("{} is the nearest of {compared}", base.name),
        None => say!("{compared} compared, none is near enough to be the base"),
    }
    for path in &choice.saved {
        say!("the sketch {} was saved", path.display());
    }
}

fn say_choice(choice: &BaseChoice, extended: Extended) {
    for (name, reason) in &choice.left_out {
        say!("note: {name} was left out: {reason}");
    }
    for (name, reason) in &choice.unsaved {
        say!("note: the sketch of {name} was not saved: {reason}");
    }
    if choice.excluded > 0 {
        say!(
            "note: {} left out: the inputs of one command are not bases of each other",
            super::pack::count(choice.excluded, "other input")
        );
    }
    let plain = size::bytes(choice.plain.packed_bytes);
    let original = size::bytes(choice.original_bytes);
    let without = match extended.is_set() {
        true => "without a base and extension frames",
        false => "without a base",
    };
    match &choice.base {
        Some(base) => say!(
            "expects {} of {original} against {}; {without} about {plain}",
            size::bytes(base.estimate.packed_bytes),
            chosen_names(choice).join(match base.sources {
                1 => " and its base ",
                _ => " and ",
            })
        ),
        None if choice.compared == 0 => {
            say!("expects {plain} of {original} {without}: no checkpoint could be compared");
        }
        None => say!(
            "expects {plain} of {original} {without}: none of {} saves {MIN_SAVING_PERCENT} %",
            super::pack::count(choice.compared, "checkpoint")
        ),
    }
}
