//! Packing the files of a plan.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::Metrics;
use super::queue::Queue;
use super::runner::{Outcome, Runner};
use super::several::in_order;
use super::{CommitJob, Event, JobEvent, Stage, Stop};
use crate::hub::{Hub, ListedFile};
use crate::manifest::{Class, PlanShare, Results, Row, repeated, shard};
use crate::work::{Failure, Origin, Packer, RowOutcome, RowWork, WorkerOptions, class};
use zstn::internals::Staging;
use zstn::source::HttpOptions;
use zstn::{Engine, Error, Location, Result};
use zstn_serve::path::packed_path;

/// The branch to which packed files are added.
const BRANCH: &str = "main";

/// Options for packing the files of a plan.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[must_use]
pub struct PlanRun {
    /// Options for packing files.
    pub worker: WorkerOptions,
    /// The share of the plan to work on.
    pub shard: PlanShare,
    /// Retries files that were refused before. Files that failed for a transient reason
    /// are always retried.
    pub retry_refused: bool,
    /// Requests the end of the work, which takes effect between two files.
    pub stop: Stop,
}

impl Default for PlanRun {
    fn default() -> Self {
        Self {
            worker: WorkerOptions::default(),
            shard: PlanShare::ALL,
            retry_refused: false,
            stop: Stop::default(),
        }
    }
}

/// The results of a share of a plan, counted in rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanSummary {
    /// Number of rows that this run has packed and verified.
    pub packed: usize,
    /// Number of rows that had been packed before: before this run, or by an earlier row
    /// with the same key.
    pub known: usize,
    /// Number of rows that were refused, in this run or before.
    pub refused: usize,
    /// Number of rows that failed for a transient reason.
    pub retry: usize,
    /// Number of rows that are left because the work was stopped.
    pub left: usize,
}

impl PlanRun {
    /// Packs the files of a plan from `hub` into the folder `to`. A file is stored as
    /// `packed/KEY.zstn` with the entry `done/KEY.json`; a failure is recorded in
    /// `failed/KEY.json`. Several machines may work on the same rows, because they
    /// write the same bytes.
    ///
    /// # Errors
    /// If the folder cannot be written. Errors of single files are recorded in the
    /// folder.
    pub fn into_folder(
        &self,
        engine: &Engine,
        hub: &Hub,
        rows: &[Row],
        to: &Location,
        log: impl Fn(Event),
    ) -> Result<PlanSummary> {
        let results = Results::open(to, &HttpOptions::default())?;
        let scratch = Staging::temporary()?;
        let work = RowWork::new(
            engine,
            Origin::hub(hub)?,
            results,
            scratch.folder(),
            self.worker,
        )?
        .retry_refused(self.retry_refused);
        let mut summary = PlanSummary::default();
        let repeated = repeated(rows);
        // Bases come before the deltas from them.
        let mut rows = shard(rows, self.shard);
        let count = |row: &Row| row.bases.all().len();
        rows.sort_by_cached_key(|row| count(row));
        for rows in rows.chunk_by(|row, next| count(row) == count(next)) {
            self.rows(&work, rows, |row, outcome| {
                summary.add_outcome(row, outcome.as_ref(), &log);
                let outcome = match outcome {
                    Some(RowOutcome::Packed(done)) => Some(RowOutcome::Known(done)),
                    other => other,
                };
                for row in repeated.get(&*row.key).into_iter().flatten() {
                    summary.add_outcome(row, outcome.as_ref(), &log);
                }
            })?;
        }
        Ok(summary)
    }

    /// Packs rows that are not bases of each other, several at the same time. Passes the
    /// outcome of each row to `next`, or `None` if the work was stopped before it.
    fn rows(
        &self,
        work: &RowWork,
        rows: &[&Row],
        mut next: impl FnMut(&Row, Option<RowOutcome>),
    ) -> Result<()> {
        let (at_once, work) = work.for_one_of(rows.len());
        let outcome = |row: &&Row| match self.stop.is_requested() {
            true => Ok(None),
            false => work.work(row, None, &()).map(Some),
        };
        in_order(rows, at_once, outcome, |row, outcome| {
            next(row, outcome?);
            Ok(())
        })
    }

    /// Packs the files of a plan and adds them to their repositories in one commit
    /// each. All rows of a repository belong to the same share. Results are recorded in
    /// the folder `state`, as by [`Worker`](super::Worker).
    ///
    /// # Errors
    /// If the folder cannot be written. Errors of single repositories are logged and
    /// counted in the summary.
    pub fn into_hub(
        &self,
        engine: &Engine,
        hub: &Hub,
        rows: &[Row],
        state: &Path,
        log: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<PlanSummary> {
        if let Some(row) = rows.iter().find(|row| !row.bases.is_empty()) {
            return Err(Error::Usage(format!(
                "the plan stores {} of {} as a delta, which cannot be stored in a repository; \
                 give --to a folder, or make the plan without --base",
                row.path, row.repo
            )));
        }
        let mut packer = Packer::new(state, self.worker, hub.http()?)?;
        packer.engine = engine.clone();
        let runner = Runner {
            hub: hub.clone(),
            queue: Arc::new(Queue::open(state)?),
            packer,
            metrics: Arc::new(Metrics::default()),
            stop: self.stop.clone(),
            log: Arc::new(log),
        };
        let mut repositories: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        for row in rows {
            repositories.entry(&row.repo).or_default().push(row);
        }
        let own = repositories.into_iter().skip(self.shard.index);
        let mut summary = PlanSummary::default();
        for (repository, rows) in own.step_by(self.shard.count.max(1)) {
            let counted = self.repository(&runner, repository, &rows)?;
            summary.add(&counted);
        }
        Ok(summary)
    }

    fn repository(&self, runner: &Runner, name: &str, rows: &[&Row]) -> Result<PlanSummary> {
        let mut summary = PlanSummary::default();
        let contents: HashSet<String> = rows.iter().map(|row| row.sha256.clone()).collect();
        if self.stop.is_requested() {
            summary.left = rows.len();
            return Ok(summary);
        }
        let repository = name.parse()?;
        // The job names the branch instead of a commit, because the branch may have moved
        // after the plan was made.
        let job = CommitJob::new(&repository, BRANCH, BRANCH);
        let event = |stage| JobEvent::new(stage, name, BRANCH);
        let results = runner.queue.results()?;
        let mut known = HashSet::new();
        for row in rows {
            if results.done(&row.key)?.is_some() {
                known.insert(&row.key);
            }
        }
        let worked = match runner.queue.lock(&repository)? {
            Some(_lock) => runner.job(&job, Some(&contents)),
            None => {
                let detail = "another worker works on this repository";
                let error = std::io::Error::other(detail);
                Err(Failure::Error(Error::io(format!("pack {name}"), error)))
            }
        };
        let class = match worked {
            Ok(Outcome::Partly(error)) => {
                runner.tell(event(Stage::Failed).detail(error.to_string()));
                None
            }
            Ok(_) => None,
            Err(Failure::Stopped) => {
                runner.tell(event(Stage::GivenBack).detail("the worker ends"));
                Some(Class::Retry)
            }
            Err(Failure::File(reason)) => {
                runner.tell(event(Stage::Failed).detail(reason));
                Some(Class::Refused)
            }
            Err(Failure::Error(error)) => {
                runner.tell(event(Stage::Failed).detail(error.to_string()));
                Some(class(&error))
            }
        };
        let packed = match class {
            None => {
                let files = runner.hub.files(&repository, BRANCH);
                packed_contents(runner, &results, &files.unwrap_or_default())?
            }
            Some(_) => HashSet::new(),
        };
        for row in rows {
            match (class, results.done(&row.key)?, results.failed(&row.key)?) {
                (Some(class), ..) => summary.count_failed(class),
                // A later row with this key is known.
                (None, Some(_), _) if known.insert(&row.key) => summary.packed += 1,
                (None, Some(_), _) => summary.known += 1,
                (None, None, Some(failed)) => summary.count_failed(failed.class),
                // Another worker packed it, and this job has decoded and compared the
                // packed file.
                (None, None, None) if packed.contains(&row.sha256) => summary.known += 1,
                (None, None, None) => {
                    let reason = format!(
                        "{BRANCH} of {name} has no unpacked file with this content any more, or \
                         another file has the name of its packed one"
                    );
                    runner.tell(event(Stage::Refused).path(&row.path).detail(reason));
                    summary.refused += 1;
                }
            }
        }
        Ok(summary)
    }
}

impl PlanSummary {
    /// Counts and logs the outcome of a row; `None` if the work was stopped before it.
    fn add_outcome(&mut self, row: &Row, outcome: Option<&RowOutcome>, log: &impl Fn(Event)) {
        let event = |stage| JobEvent::new(stage, &row.repo, &row.revision).path(&row.path);
        let event = match outcome {
            None => {
                self.left += 1;
                return;
            }
            Some(RowOutcome::Known(done)) => {
                self.known += 1;
                event(Stage::Reused).bytes(row.len_bytes, done.packed_bytes)
            }
            Some(RowOutcome::Packed(done)) => {
                self.packed += 1;
                event(Stage::Packed).bytes(row.len_bytes, done.packed_bytes)
            }
            Some(RowOutcome::Failed { class, reason, .. }) => {
                self.count_failed(*class);
                let stage = match class {
                    Class::Refused => Stage::Refused,
                    Class::Retry => Stage::Retry,
                };
                event(stage).detail(reason.as_str())
            }
        };
        log(Event::Job(event));
    }

    fn count_failed(&mut self, class: Class) {
        match class {
            Class::Refused => self.refused += 1,
            Class::Retry => self.retry += 1,
        }
    }

    fn add(&mut self, other: &Self) {
        self.packed += other.packed;
        self.known += other.known;
        self.refused += other.refused;
        self.retry += other.retry;
        self.left += other.left;
    }
}

/// Returns the SHA-256 of each file whose packed counterpart is known to this queue to
/// restore it.
fn packed_contents(
    runner: &Runner,
    results: &Results,
    files: &[ListedFile],
) -> Result<HashSet<String>> {
    let by_path: HashMap<&str, &ListedFile> =
        files.iter().map(|file| (&*file.path, file)).collect();
    let mut contents = HashSet::new();
    for file in files {
        let packed = packed_path(&file.path).and_then(|path| by_path.get(&*path).copied());
        if let (Some(packed), Some(sha256)) = (packed, &file.sha256)
            && runner.has_proof(results, (&file.path, sha256), packed)?
        {
            contents.insert(sha256.clone());
        }
    }
    Ok(contents)
}
