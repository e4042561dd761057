//! `zstn worker`: packs the files pushed to a model hub or listed in a plan.

use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use serde_json::{Value, json};
use zstn::{Error, Location, Result};
use zstn_hub::hub::Hub;
use zstn_hub::manifest::{PlanShare, read_plan};
use zstn_hub::worker::{Event, JobEvent, PlanRun, PlanSummary, Worker, WorkerOptions};

use super::arguments::{Memory, Threads};
use super::network::Certificates;
use super::pack::{Effort, Extended};
use super::serve::{announce, request_json};
use super::{Failure, Outcome, print, say, signals};

/// The type of service that sends notifications.
#[derive(Clone, Copy, ValueEnum)]
enum Origin {
    Hub,
}

#[derive(Args)]
#[command(group = ArgGroup::new("work").required(true).args(["listen", "plan"]))]
pub struct Options {
    /// Listen for the notifications of a hub at this address, like 0.0.0.0:8080
    #[arg(long, value_name = "ADDRESS:PORT", requires = "state")]
    listen: Option<String>,
    /// Pack the files of a plan instead: a file with one JSON object per line, with
    /// repo, revision, path, size and sha256 (docs/worker.md)
    #[arg(long, value_name = "PLAN.jsonl", requires = "to")]
    plan: Option<PathBuf>,
    /// Share i of n of the plan, counted from 0, like 3/16
    #[arg(long, value_name = "i/n", default_value = "0/1", requires = "plan")]
    shard: PlanShare,
    /// Destination of a plan's packed files: a folder, local or in an object store
    /// (s3://…), or hub to commit them to their repositories
    #[arg(long, value_name = "DIR|hub", conflicts_with = "listen")]
    to: Option<String>,
    /// Retry files of the plan that were refused
    #[arg(long, requires = "plan")]
    retry_failed: bool,
    /// Type of service that sends the notifications
    #[arg(long, value_enum, value_name = "WHO", default_value = "hub")]
    from: Origin,
    /// Address of the hub, whose token is read from $HF_TOKEN [default: $HF_ENDPOINT,
    /// or https://huggingface.co]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    #[command(flatten)]
    certificates: Certificates,
    /// Folder for the queue and for temporary files; several workers may share it
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Name of the environment variable that contains the webhook's secret; without it,
    /// only this machine can send notifications
    #[arg(long, value_name = "NAME", conflicts_with = "plan")]
    secret_env: Option<String>,
    /// Speed/size trade-off
    #[arg(long, value_enum, default_value_t)]
    effort: Effort,
    #[command(flatten)]
    extended: Extended,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    memory: Memory,
    /// Time for the files in progress when the worker is stopped (Ctrl-C, SIGTERM); a second
    /// signal ends it immediately
    #[arg(long, default_value_t = 25, value_name = "SECONDS")]
    grace: u64,
    /// Print one JSON object per line: the address, then every request and every stage
    /// of a job (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

impl Options {
    fn hub(&self) -> Result<Hub> {
        let Origin::Hub = self.from;
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let endpoint = self.endpoint.clone().or_else(|| set("HF_ENDPOINT"));
        let endpoint = endpoint.as_deref().unwrap_or("https://huggingface.co");
        Hub::new(endpoint, set("HF_TOKEN").as_deref())
    }

    fn worker_options(&self) -> WorkerOptions {
        let mut options = WorkerOptions::default();
        options.effort = self.effort.into();
        options.extended = self.extended.is_set();
        self.memory.add_to(options, |mut options, bytes| {
            options.memory_bytes = Some(bytes);
            options
        })
    }

    /// Returns the secret of the webhook. A worker that other machines can reach must
    /// have one.
    fn secret(&self, address: SocketAddr) -> Result<Option<String>> {
        let Some(name) = &self.secret_env else {
            return match address.ip().is_loopback() {
                true => Ok(None),
                false => Err(Error::Usage(format!(
                    "anyone who can reach {address} could submit jobs; name the environment \
                     variable with the webhook's secret by --secret-env"
                ))),
            };
        };
        match std::env::var(name) {
            Ok(secret) if !secret.is_empty() => Ok(Some(secret)),
            _ => Err(Error::Usage(format!(
                "the environment variable {name}, which --secret-env names, is not set"
            ))),
        }
    }
}

pub fn run(options: &Options) -> Outcome {
    options.certificates.trust()?;
    match &options.plan {
        Some(plan) => work_on(options, plan),
        None => listen(options).map_err(Failure::from),
    }
}

/// Packs the files of a plan. The exit status is 3 if another run may complete more
/// files, otherwise 1 if files were refused.
fn work_on(options: &Options, plan: &Path) -> Outcome {
    let rows = read_plan(plan, options.extended.encode(options.effort)).map_err(permanent)?;
    let (hub, engine) = (options.hub()?, options.threads.engine()?);
    let mut run = PlanRun::default();
    run.worker = options.worker_options();
    run.shard = options.shard;
    run.retry_refused = options.retry_failed;
    let (stopping, grace) = (run.stop.clone(), Duration::from_secs(options.grace));
    let json = options.json;
    signals::catch().end_with(move || {
        say_ending(json);
        stopping.request();
        std::thread::spawn(move || {
            std::thread::sleep(grace);
            signals::stop();
        });
    });
    let log = log(options.json);
    let to = options.to.as_deref().unwrap_or_default();
    let summary = match (to, &options.state) {
        ("hub", Some(state)) => run.into_hub(&engine, &hub, &rows, state, log),
        ("hub", None) => Err(Error::Usage(
            "--to hub needs a folder for its results: --state".into(),
        )),
        _ => {
            let to = match Location::is_url(to) {
                true => Location::url(to),
                false => Location::from(to),
            };
            run.into_folder(&engine, &hub, &rows, &to, log)
        }
    }
    .map_err(permanent)?;
    let PlanSummary {
        packed,
        known,
        refused,
        retry,
        left,
        ..
    } = summary;
    match options.json {
        true => print(json!({
            "event": "summary",
            "packed": packed,
            "known": known,
            "refused": refused,
            "retry": retry,
            "left": left,
        }))?,
        false => say!(
            "{packed} packed, {known} done before, {refused} refused, {retry} to try again, \
             {left} left"
        ),
    }
    match (retry + left, refused) {
        (0, 0) => Ok(()),
        (0, _) => Err(Failure::Reported(1)),
        _ => Err(Failure::Reported(3)),
    }
}

/// Makes an error that another run would meet as well, such as a missing plan or bucket, a
/// wrong usage: its status would otherwise be 3, with which a scheduler repeats the command.
fn permanent(error: Error) -> Error {
    let is_permanent = match &error {
        Error::Http { .. } => !error.is_retryable(),
        Error::Io { source, .. } => matches!(
            source.kind(),
            ErrorKind::NotFound
                | ErrorKind::PermissionDenied
                | ErrorKind::IsADirectory
                | ErrorKind::NotADirectory
        ),
        _ => false,
    };
    match is_permanent {
        true => Error::Usage(error.to_string()),
        false => error,
    }
}

fn listen(options: &Options) -> Result<()> {
    let missing = || Error::Usage("--listen and --state are needed".into());
    let address = resolve(options.listen.as_deref().ok_or_else(missing)?)?;
    let state = options.state.as_deref().ok_or_else(missing)?;
    let secret = options.secret(address)?;
    let hub = options.hub()?;
    let signals = signals::catch();
    let mut worker = Worker::bind(&hub, state, address, options.worker_options())?
        .with_engine(&options.threads.engine()?)
        .with_grace(Duration::from_secs(options.grace));
    if let Some(secret) = secret {
        worker = worker.with_secret(&secret);
    }
    let url = worker.url();
    let handle = worker.handle();
    let json = options.json;
    signals.end_with(move || {
        say_ending(json);
        handle.stop();
    });
    match options.json {
        true => announce(print(json!({"event": "listening", "url": url}))),
        false => {
            announce(print(format!("worker for {} at {url}", hub.endpoint())));
            say!("stop with Ctrl-C");
        }
    }
    worker.run(log(options.json))
}

/// Reports that a signal has arrived, and that a second one ends the process
/// immediately.
fn say_ending(json: bool) {
    match json {
        true => drop(print(json!({"event": "ending"}))),
        false => say!("stopping after the files in progress; a second signal stops at once"),
    }
}

/// Returns a function that prints an event.
fn log(json: bool) -> impl Fn(Event) + Send + Sync + use<> {
    move |event| {
        // The work continues even if the reader of the log has closed the pipe.
        let _ = match (json, &event) {
            (false, _) => print(event.to_string()),
            (true, Event::Request(served)) => print(request_json(served)),
            (true, Event::Job(event)) => print(job_json(event)),
            (true, _) => Ok(()),
        };
    }
}

fn job_json(event: &JobEvent) -> Value {
    json!({
        "event": "job",
        "stage": event.stage.name(),
        "repo": event.repo,
        "revision": event.revision,
        "path": event.path,
        "original_bytes": event.original_bytes,
        "packed_bytes": event.packed_bytes,
        "detail": event.detail,
    })
}

fn resolve(text: &str) -> Result<SocketAddr> {
    let fail = |error| Error::io(format!("listen at {text}"), error);
    let missing = || fail(std::io::Error::other("the name has no address"));
    let mut found = text.to_socket_addrs().map_err(fail)?;
    found.next().ok_or_else(missing)
}
