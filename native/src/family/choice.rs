//! Chooses the base of a checkpoint.

use std::path::PathBuf;

use zstn_core::catalog::FileKind;
use zstn_core::engine::Engine as _;
use zstn_core::frame::Edition;
use zstn_core::sketch::{MAX_FILE_BYTES, SizeEstimate, Sketch};

use super::chain::{Candidate, chain};
use super::members::{self, Member};
use super::same_checkpoint::Form;
use super::sketching::{Digests, SketchOptions, sketch, sketch_reader};
use super::target::{Target, delta_format};
use crate::shards::{PLAIN, Shards};
use crate::source::{Input, Location};
use crate::{Error, Job, Output, PackOptions, Result, View};

/// The minimum saving compared with the size without a base, in percent. A delta cannot
/// be read without its base, so a base that saves less is not worth its costs: another
/// file that has to be kept, and twice the number of reads.
pub const MIN_SAVING_PERCENT: u64 = 10;

/// Options for [`choose`].
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct FamilyOptions {
    extended: bool,
    save_sketches: bool,
    excluded: Vec<Location>,
}

impl FamilyOptions {
    /// Sets whether the result may have extension frames, which make deltas smaller,
    /// and may be decoded from renamed tensors, from tensors with another number of rows
    /// and from rows of fused ones; the default is false. Sketches do not show how much
    /// such frames save without a base, so [`BaseChoice::plain`] does not include them.
    pub fn extended(mut self, extended: bool) -> Self {
        self.extended = extended;
        self
    }

    /// Sets whether new sketches of members of a local family are saved in the same
    /// folder; the default is false. These sketches include digests of all tensors, so
    /// every plain member is read in full once.
    pub fn save_sketches(mut self, save: bool) -> Self {
        self.save_sketches = save;
        self
    }

    /// Excludes a checkpoint, and all files that packing or unpacking made of it; the
    /// next call excludes another one. Checkpoints that are packed together should
    /// exclude each other: two deltas that need each other as bases could not be read.
    pub fn exclude(mut self, checkpoint: impl Into<Location>) -> Self {
        self.excluded.push(checkpoint.into());
        self
    }
}

/// The result of choosing a base.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BaseChoice {
    /// The base, if one is expected to save at least [`MIN_SAVING_PERCENT`].
    pub base: Option<ChosenBase>,
    /// The estimated size without a base and without extension frames.
    pub plain: SizeEstimate,
    /// Total length of the safetensors files, in bytes.
    pub original_bytes: u64,
    /// The number of checkpoints that were compared and could be the base.
    pub compared: usize,
    /// Checkpoints of the family that could not be the base, by name, with the reason.
    pub left_out: Vec<(String, String)>,
    /// The number of checkpoints that [`FamilyOptions::exclude`] excluded.
    pub excluded: usize,
    /// Paths of the sketches that were saved.
    pub saved: Vec<PathBuf>,
    /// Sketches that could not be saved, by the name of the member, with the reason.
    /// These members were compared nevertheless.
    pub unsaved: Vec<(String, String)>,
}

/// The base that was chosen.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChosenBase {
    /// The name of the base in the family.
    pub name: String,
    /// The base, followed by its own base if it is a delta, and so on. If the base is
    /// computed from several checkpoints, these follow one another, each with its own bases
    /// after it.
    pub chain: Vec<Location>,
    /// The number of checkpoints that the base is computed from; 1 if the base is one of
    /// them.
    pub sources: usize,
    /// The estimated size of the delta against the base.
    pub estimate: SizeEstimate,
}

impl BaseChoice {
    /// Adds the chosen base, with its own bases, to the options for packing. If no base
    /// was chosen, returns the options unchanged.
    pub fn add_to(&self, options: PackOptions) -> PackOptions {
        let chain = self.base.iter().flat_map(|base| &base.chain);
        chain.fold(options, |options, base| options.base(base))
    }
}

/// Chooses the checkpoint in the folder `family` against which the delta of `input` is
/// smallest, by comparing sketches (docs/families.md). Chooses none if every delta would
/// save less than [`MIN_SAVING_PERCENT`]. Only samples of the input are read. Local
/// members without a sketch are sampled too; they are read in full if their digests are
/// needed, which is the case with [`FamilyOptions::save_sketches`] and in a family that
/// contains a delta with a sketch.
///
/// A member that shares a file with the input, or has the same name apart from the
/// endings that packing changes, is the same checkpoint in another format and is left
/// out. A plain member whose own delta is in the same folder is left out too, because
/// that delta may need the input. The base of a safetensors file is safetensors too, plain or
/// packed; the base of any other file may have any format. Members that are not safetensors
/// must be packed.
///
/// If the input was merged from up to four members, or contains tensors of several,
/// such as a language model and a vision tower, these are chosen together, as far as
/// sketches show that this saves at least [`MIN_SAVING_PERCENT`] of the size with the
/// nearest of them alone.
///
/// The choice is deterministic for the same files. Among equally good bases, the first
/// by name is chosen. A member that is itself a delta is ranked as if the result were
/// [`MIN_SAVING_PERCENT`] larger, because reading it takes more reads.
///
/// # Errors
/// A family that is neither a local folder nor a folder in an object store; an input
/// that is not a plain checkpoint, or can be read only once; I/O errors. Members that
/// cannot be compared are not errors; they are listed in [`BaseChoice::left_out`].
pub fn choose(
    job: &Job,
    input: impl Into<Input>,
    family: impl Into<Location>,
    options: &FamilyOptions,
) -> Result<BaseChoice> {
    let (input, family) = (input.into(), family.into());
    if input.location().is_some_and(Location::is_read_once) {
        return Err(Error::Usage(format!(
            "{input} can be read only once, and --base auto reads it twice; save it to a file first"
        )));
    }
    job.run(|job| Search { job, options }.choose(&input, &family))
}

/// The search for the base of one checkpoint.
pub(super) struct Search<'a> {
    pub(super) job: &'a Job<'a>,
    options: &'a FamilyOptions,
}

impl Search<'_> {
    fn choose(&self, input: &Input, family: &Location) -> Result<BaseChoice> {
        let http = &self.job.http;
        let shards = Shards::open_input(input, PLAIN, http)?;
        let own = input.location();
        let own = own.map(|location| Form::of_input(location, shards.as_ref()));
        let others = self.options.excluded.iter().map(|location| {
            // Shards on servers are identified by the name of their index.
            let is_local = matches!(location, Location::Path(_));
            let shards = is_local.then(|| Shards::open_input(&location.into(), PLAIN, http).ok());
            Form::of_input(location, shards.flatten().flatten().as_ref())
        });
        let others: Vec<Form> = others.collect();
        let reader = self.job.open(input, &[], View::Stored)?;
        let format = delta_format(reader.model()).map(str::to_owned);
        let reader = reader.into_entries_to_pack()?;
        let target = Target {
            sketch: sketch_reader(self.job, &reader, Digests::Stored)?,
            shards: shards.as_ref().map(members::shard_stems),
            format,
        };
        drop(reader);
        let plain = target.sketch.estimate_plain();
        let mut choice = BaseChoice {
            base: None,
            plain,
            original_bytes: target.sketch.original_len_bytes(),
            compared: 0,
            left_out: Vec::new(),
            excluded: 0,
            saved: Vec::new(),
            unsaved: Vec::new(),
        };
        let (mut members, left_out) = members::list(family, http)?;
        choice.left_out = left_out;
        let is_own = |form: &Form| own.as_ref().is_some_and(|own| own.is_same(form));
        members.retain(|member| !is_own(&member.form));
        let count = members.len();
        members.retain(|member| !others.iter().any(|other| other.is_same(&member.form)));
        choice.excluded = count - members.len();
        let deltas = members.iter().filter(|member| member.is_delta());
        let deltas: Vec<Form> = deltas.map(|member| member.form.clone()).collect();
        // The sketch of a delta identifies its base by digests.
        let has_deltas = members.iter().any(|m| m.is_delta() && m.has_sketch);
        let digests = match has_deltas || self.options.save_sketches {
            true => Digests::Local,
            false => Digests::Stored,
        };
        members.retain(|member| {
            let reason = match member.kind {
                FileKind::Safetensors if !target.takes(Some(member.kind.name())) => {
                    target.other_format()
                }
                FileKind::Safetensors
                    if deltas.iter().any(|delta| delta.is_same(&member.form))
                        || member.form.has_difference() =>
                {
                    OWN_DELTA
                }
                _ => return true,
            };
            choice.left_out.push((member.name.clone(), reason.into()));
            false
        });
        let candidates = self.candidates(members, digests, &mut choice)?;
        choice.compared = candidates.len();
        self.take_best(&target, &candidates, &mut choice)?;
        Ok(choice)
    }

    /// Reads the sketches of members, or makes those that are missing. Members without
    /// either are left out.
    fn candidates(
        &self,
        members: Vec<Member>,
        digests: Digests,
        choice: &mut BaseChoice,
    ) -> Result<Vec<Candidate>> {
        let mut candidates = Vec::with_capacity(members.len());
        let saved = members.iter().filter(|member| member.has_sketch);
        let saved: Vec<&Location> = saved.map(|member| &member.sketch).collect();
        let (engine, http) = (&self.job.engine, &self.job.http);
        let mut saved = engine
            .map(saved, |sketch| {
                let (file, _) = sketch.read_small(http, MAX_FILE_BYTES)?;
                Sketch::parse(engine, &file).map_err(Error::place(sketch))
            })
            .into_iter();
        for member in members {
            let sketch = match member.has_sketch {
                true => saved.next(),
                false => None,
            };
            match sketch.unwrap_or_else(|| self.new_sketch(&member, digests, choice)) {
                Ok(sketch) => candidates.push(Candidate { member, sketch }),
                Err(error) if !member.is_local && error.is_external() => return Err(error),
                Err(error) => choice.left_out.push((member.name, error.to_string())),
            }
        }
        Ok(candidates)
    }

    /// Chooses the best candidate whose files match its sketch.
    fn take_best(
        &self,
        target: &Target,
        candidates: &[Candidate],
        choice: &mut BaseChoice,
    ) -> Result<()> {
        let edition = match self.options.extended {
            true if target.is_safetensors() => Edition::Paired,
            true => Edition::Extended,
            false => Edition::Plain,
        };
        let sketch = &target.sketch;
        let estimates =
            self.job
                .engine
                .map(candidates.iter().collect(), |candidate: &Candidate| {
                    let base = &candidate.sketch;
                    match (target.is_safetensors(), &target.shards) {
                        (true, Some(_)) => sketch.estimate_delta(base, edition),
                        (true, None) => sketch.estimate_file_delta(base, edition),
                        (false, _) => sketch.estimate_original_delta(base, edition),
                    }
                });
        let mut ranked: Vec<(u64, &Candidate, SizeEstimate)> = Vec::new();
        for (candidate, estimate) in candidates.iter().zip(estimates) {
            let handicap = match candidate.member.is_delta() {
                true => 100 + MIN_SAVING_PERCENT,
                false => 100,
            };
            ranked.push((
                estimate.packed_bytes.saturating_mul(handicap),
                candidate,
                estimate,
            ));
        }
        // Among equally good candidates, one with the same shards comes first: each shard
        // then needs only one file of it. The sort is stable, so the others stay sorted by
        // name.
        let shards = target.shards.as_deref().unwrap_or_default();
        ranked.sort_by_key(|(rank, candidate, _)| (*rank, candidate.member.shards != shards));
        let limit = choice
            .plain
            .packed_bytes
            .saturating_mul(100 - MIN_SAVING_PERCENT);
        // The rank includes the handicap of deltas, so it cannot be used here.
        ranked.retain(|(_, _, estimate)| estimate.packed_bytes.saturating_mul(100) <= limit);
        let nearest = ranked
            .first()
            .map_or(choice.plain, |(_, _, estimate)| *estimate);
        let sizes = (&choice.plain, &nearest);
        if let Some(merge) = self.merge(target, candidates, edition, sizes)? {
            choice.base = Some(merge);
            return Ok(());
        }
        for (_, candidate, estimate) in ranked {
            let name = &candidate.member.name;
            match chain(candidate, candidates).and_then(|chain| {
                self.check(&chain, target)?;
                Ok(chain)
            }) {
                Ok(chain) => {
                    let chain = chain.iter().map(|link| link.member.location.clone());
                    choice.base = Some(ChosenBase {
                        name: name.clone(),
                        chain: chain.collect(),
                        sources: 1,
                        estimate,
                    });
                    return Ok(());
                }
                Err(error) if !candidate.member.is_local && error.is_external() => {
                    return Err(error);
                }
                Err(error) => {
                    choice.compared -= 1;
                    choice.left_out.push((name.clone(), error.to_string()));
                }
            }
        }
        Ok(())
    }

    fn sketch(&self, input: &Input, digests: Digests) -> Result<Sketch> {
        sketch(self.job, input, &SketchOptions::default().digests(digests))
    }

    /// Makes the sketch of a member that has none.
    fn new_sketch(
        &self,
        member: &Member,
        digests: Digests,
        choice: &mut BaseChoice,
    ) -> Result<Sketch> {
        if member.is_delta() {
            return Err(Error::Usage(
                "it is a delta without a sketch; make one with `zstn sketch FILE --base BASE`"
                    .into(),
            ));
        }
        if !member.is_local {
            return Err(Error::Usage(
                "it has no sketch, and remote files are not sketched automatically; run \
                 `zstn sketch` first"
                    .into(),
            ));
        }
        let sketch = self.sketch(&(&member.location).into(), digests)?;
        if let (true, Location::Path(path)) = (self.options.save_sketches, &member.sketch) {
            let save = || {
                let mut output = Output::create_new(path)?;
                output.write(&sketch.to_bytes(&self.job.engine))?;
                output.finish()
            };
            match save() {
                Ok(()) => choice.saved.push(path.clone()),
                // Another process has just saved the same sketch.
                Err(Error::Exists { .. }) => {}
                Err(error) => {
                    let name = member.name.clone();
                    choice.unsaved.push((name, error.to_string()));
                }
            }
        }
        Ok(sketch)
    }

    /// Refuses a chain with a file that cannot be a base of the target, or with one that
    /// does not match its sketch, as far as that can be determined without reading tensors.
    pub(super) fn check(&self, chain: &[&Candidate], target: &Target) -> Result<()> {
        for (number, link) in chain.iter().enumerate() {
            let location = (&link.member.location).into();
            let reader = self.job.open(&location, &[], View::Stored)?;
            let format = delta_format(reader.model());
            if !target.takes(format) {
                return Err(Error::Usage(target.other_format().into()));
            }
            // Only safetensors files can be one base together.
            if reader.model().files().len() > 1 && format != Some(FileKind::Safetensors.name()) {
                return Err(Error::Usage(SEVERAL_FILES.into()));
            }
            if reader.model().needs_base() != (number + 1 < chain.len()) {
                return Err(link.stale());
            }
            let tensors = reader.tensors().iter();
            let mut same = tensors.map(|tensor| {
                let sketched = link.sketch.find(&tensor.name)?;
                let part = tensor.parts.first()?;
                let stored = reader.model().files()[part.file].tensor_digest(part.number);
                let is_other = stored.is_some_and(|own| sketched.digest.is_some_and(|d| d != own));
                let layout = (sketched.dtype, &sketched.shape) == (tensor.dtype, &tensor.shape);
                (layout && !is_other).then_some(())
            });
            let count = reader.tensors().len();
            if count != link.sketch.tensors().len() || same.any(|same| same.is_none()) {
                return Err(link.stale());
            }
        }
        Ok(())
    }
}

/// The reason why a member in several files is left out.
const SEVERAL_FILES: &str = "it consists of several files, and only safetensors files can be one \
                             base together";

/// The reason why a plain member with its own delta in the same folder is left out.
const OWN_DELTA: &str = "its delta from another checkpoint is in the same folder, and may need \
                         the one that is packed now; if it does not, name it with --base";
