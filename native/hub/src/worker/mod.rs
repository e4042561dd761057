//! Workers that pack files: [`Worker`] handles pushes to a hub, [`PlanRun`] the rows of
//! a plan. Both can be killed and restarted at any time, because jobs and results are
//! files in a folder.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender, TryRecvError};
use std::time::Duration;
use std::{io, thread};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use zstn::{Engine, Error, Result};
use zstn_serve::Handle;
use zstn_serve::listening::Listening;

use crate::hub::Hub;
use crate::work::Packer;
use queue::Queue;
use runner::Runner;
use webhook::{Site, WebhookSecret};

mod commit_additions;
mod job;
mod plan_run;
mod queue;
mod runner;
mod selection;
mod several;
mod unlisted;
mod webhook;

pub use crate::work::WorkerOptions;
pub use job::{CommitJob, Event, JobEvent, Stage};
pub use plan_run::{PlanRun, PlanSummary};

/// Default time for the files in progress when the worker stops. Kubernetes kills a process
/// after 30 seconds.
const GRACE: Duration = Duration::from_secs(25);

/// The line of a commit's message that identifies the worker.
pub(crate) const TRAILER: &str = concat!("Packed-by: zstn ", env!("CARGO_PKG_VERSION"));
/// The prefix of [`TRAILER`] that all versions share.
pub(crate) const TRAILER_KEY: &str = "Packed-by: zstn ";

/// A worker for the notifications of a hub. It has bound its port and starts working in
/// [`Worker::run`].
///
/// A notification (webhook, version 3) is answered once it is in the queue, a folder
/// that several workers may share. A job is one commit of a repository. Each
/// safetensors file, and each model file of another format, without a packed counterpart
/// is packed, verified by restoring it and comparing the SHA-256 with the hub's, and
/// uploaded. Then a single commit adds all packed files.
///
/// ```no_run
/// # fn main() -> zstn::Result<()> {
/// use zstn_hub::hub::Hub;
/// use zstn_hub::worker::{Worker, WorkerOptions};
///
/// let hub = Hub::new("https://huggingface.co", std::env::var("HF_TOKEN").ok().as_deref())?;
/// let options = WorkerOptions::default();
/// let worker = Worker::bind(&hub, "state".as_ref(), ([0, 0, 0, 0], 8080).into(), options)?
///     .with_secret("the secret of the webhook");
/// worker.run(|event| println!("{event}"))
/// # }
/// ```
pub struct Worker {
    hub: Hub,
    queue: Arc<Queue>,
    packer: Packer,
    listening: Listening,
    secret: Option<WebhookSecret>,
    grace: Duration,
    stop: Stop,
}

impl Worker {
    /// Listens at `address` (port 0 picks a free port). The queue is in the folder
    /// `state`, which is created if it does not exist.
    ///
    /// # Errors
    /// If the folder cannot be written or the port is taken.
    pub fn bind(
        hub: &Hub,
        state: &Path,
        address: SocketAddr,
        options: WorkerOptions,
    ) -> Result<Self> {
        Ok(Self {
            hub: hub.clone(),
            queue: Arc::new(Queue::open(state)?),
            packer: Packer::new(state, options, hub.http()?)?,
            listening: Listening::at(address)?.with_health("/healthz"),
            secret: None,
            grace: GRACE,
            stop: Stop::default(),
        })
    }

    /// Accepts only notifications with this secret (`X-Webhook-Secret`). Without a
    /// secret, everyone who reaches the port can add jobs.
    #[must_use]
    pub fn with_secret(mut self, secret: &str) -> Self {
        self.secret = Some(WebhookSecret::new(secret));
        self
    }

    /// Sets the time that the files in progress have when the worker stops. After that, its
    /// job stays in the queue.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Packs with `engine` instead of [`Engine::default`].
    #[must_use]
    pub fn with_engine(mut self, engine: &Engine) -> Self {
        self.packer.engine = engine.clone();
        self
    }

    /// Returns the address of the worker, with a trailing slash.
    #[must_use]
    pub fn url(&self) -> String {
        self.listening.url()
    }

    /// Returns a handle that makes [`Worker::run`] return.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.listening.handle()
    }

    /// Answers notifications and works on jobs until the handle stops the worker. No
    /// signal handler is installed. The files in progress are finished if that takes no
    /// longer than the grace period; otherwise the call returns without them, while their
    /// threads continue until the process ends.
    ///
    /// # Errors
    /// If threads cannot be started, or the thread that works on jobs ends because of a
    /// defect.
    pub fn run(self, log: impl Fn(Event) + Send + Sync + 'static) -> Result<()> {
        let log: Arc<dyn Fn(Event) + Send + Sync> = Arc::new(log);
        let metrics = Arc::new(Metrics::default());
        let runner = Runner {
            hub: self.hub,
            queue: Arc::clone(&self.queue),
            packer: self.packer,
            metrics: Arc::clone(&metrics),
            stop: self.stop.clone(),
            log: Arc::clone(&log),
        };
        let site = Arc::new(Site {
            queue: Arc::clone(&self.queue),
            secret: self.secret,
            metrics,
            log: Arc::clone(&log),
        });
        let (ended, end) = mpsc::channel::<()>();
        let ending = EndWithThread {
            handle: self.listening.handle(),
            ended: Some(ended),
        };
        thread::spawn(move || {
            let _ending = ending;
            runner.work();
        });
        let served = self.listening.run(move |request| {
            let site = Arc::clone(&site);
            async move { site.answer(request).await }
        });
        if end.try_recv() == Err(TryRecvError::Disconnected) && !self.stop.is_requested() {
            let detail = "the thread that works on jobs has ended; the jobs stay in the queue";
            return Err(Error::io("work on jobs", io::Error::other(detail)));
        }
        self.stop.request();
        self.queue.wake();
        if end.recv_timeout(self.grace) == Err(RecvTimeoutError::Timeout) {
            // If this fails, the attempt counts as failed, which is harmless.
            let _ = self.queue.give_back();
            zstn::remove_unfinished();
            let detail = "the time to end is over; the job stays in the queue";
            log(Event::Job(JobEvent::about_worker(Stage::GivenBack, detail)));
        }
        served
    }
}

/// Stops the server when the worker thread ends for any reason, because notifications
/// must not be accepted if no thread works on them.
struct EndWithThread {
    handle: Handle,
    /// The channel closes when this is dropped.
    ended: Option<Sender<()>>,
}

impl Drop for EndWithThread {
    fn drop(&mut self) {
        // The channel is closed first, so that [`Worker::run`] finds it closed when the
        // server returns.
        drop(self.ended.take());
        self.handle.stop();
    }
}

/// A shared flag that requests the end of the work. It takes effect between two files.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Requests the end of the work.
    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Returns whether the end of the work has been requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabel {
    stage: &'static str,
}

/// The metrics of one worker.
#[derive(Debug)]
struct Metrics {
    registry: Registry,
    requests: Family<StatusLabel, Counter>,
    stages: Family<StageLabel, Counter>,
    original_bytes: Counter,
    packed_bytes: Counter,
    queued: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("zstn_worker");
        let requests = Family::default();
        registry.register("requests", "Answered requests", requests.clone());
        let stages = Family::default();
        registry.register(
            "events",
            "Stages that jobs and files came to",
            stages.clone(),
        );
        let original_bytes: Counter<u64, AtomicU64> = Counter::default();
        let help = "Bytes of files that were packed";
        registry.register_with_unit("original", help, Unit::Bytes, original_bytes.clone());
        let packed_bytes: Counter<u64, AtomicU64> = Counter::default();
        let help = "Bytes of their packed files";
        registry.register_with_unit("packed", help, Unit::Bytes, packed_bytes.clone());
        let queued = Gauge::default();
        registry.register("queued_jobs", "Jobs in the queue", queued.clone());
        Self {
            registry,
            requests,
            stages,
            original_bytes,
            packed_bytes,
            queued,
        }
    }
}

impl Metrics {
    fn count_request(&self, status: u16) {
        self.requests.get_or_create(&StatusLabel { status }).inc();
    }

    fn count_stage(&self, stage: Stage) {
        let stage = stage.name();
        self.stages.get_or_create(&StageLabel { stage }).inc();
    }

    fn count_packed(&self, original_bytes: u64, packed_bytes: u64) {
        self.original_bytes.inc_by(original_bytes);
        self.packed_bytes.inc_by(packed_bytes);
    }

    /// Returns all metrics in the text format of Prometheus.
    fn text(&self, queued: usize) -> String {
        self.queued.set(i64::try_from(queued).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing to memory does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
