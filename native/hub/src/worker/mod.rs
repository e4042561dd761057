//! A worker that packs what is pushed to a hub, and one that packs what a plan
//! lists. Both can be killed at any time and begun again: what is left to do and
//! what is done are files in a folder.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender, TryRecvError};
use std::thread;
use std::time::Duration;

use crate::hub::Hub;
use crate::work::Packer;
use metrics::Metrics;
use queue::Queue;
use run::Runner;
use secret::Secret;
use site::Site;
use zstn::{Engine, Error, Result};
use zstn_serve::Handle;
use zstn_serve::listening::Listening;

mod additions;
mod event;
mod hub_file;
mod job;
mod metrics;
mod payload;
mod plan;
mod plan_run;
mod queue;
mod run;
mod secret;
mod site;
mod stale;
mod stop;

pub use crate::work::WorkerOptions;
pub use event::{Event, JobEvent, Stage};
pub use job::Job;
pub use plan_run::{PlanRun, PlanSummary};
pub use stop::Stop;

/// Time for a job under way by default; Kubernetes kills after 30 seconds.
const GRACE: Duration = Duration::from_secs(25);

/// The line of a commit's message that says who made it.
pub(crate) const TRAILER: &str = concat!("Packed-by: zstn ", env!("CARGO_PKG_VERSION"));
/// The part of it that all versions have in common.
pub(crate) const TRAILER_KEY: &str = "Packed-by: zstn ";

/// A worker that listens for the notifications of a hub, but does not work yet.
///
/// Notifications (webhooks, version 3) are answered when they are in the queue, a
/// folder that several workers may share. A job is one commit of a repository: every
/// safetensors file in it without a packed counterpart is packed, restored for
/// comparison with the SHA-256 that the hub has, and uploaded, one file at a time; then
/// one commit adds them all.
///
/// ```no_run
/// # fn main() -> zstn::Result<()> {
/// use zstn::hub::Hub;
/// use zstn::worker::{Worker, WorkerOptions};
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
    secret: Option<Secret>,
    grace: Duration,
    stop: Stop,
}

impl Worker {
    /// Listens at `address` (port 0: any free one), with a queue in the folder
    /// `state`, which is made if it is missing.
    ///
    /// # Errors
    /// A folder that cannot be written; a port that is taken.
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

    /// Takes notifications that have this secret (`X-Webhook-Secret`), and no others.
    /// Without one, everybody who reaches the port can give work.
    #[must_use]
    pub fn with_secret(mut self, secret: &str) -> Self {
        self.secret = Some(Secret::new(secret));
        self
    }

    /// Sets the time that a file under way has when the worker is asked to end. Then
    /// its job stays in the queue.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Works with `engine` instead of [`Engine::default`].
    #[must_use]
    pub fn with_engine(mut self, engine: &Engine) -> Self {
        self.packer.engine = engine.clone();
        self
    }

    /// Returns its address, with a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        self.listening.url()
    }

    /// Returns what makes [`Worker::run`] return.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.listening.handle()
    }

    /// Answers notifications and works on them until the handle stops the worker. No
    /// signal handler is installed. A file under way is finished if that takes no longer than the grace;
    /// otherwise the call returns without it, and a thread goes on until the process
    /// ends.
    ///
    /// # Errors
    /// If threads cannot be started, or the one that works ends by a defect.
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
            // Where that fails the attempt counts, which does no harm.
            let _ = self.queue.give_back();
            zstn::remove_unfinished();
            let detail = "the time to end is over; the job stays in the queue";
            log(Event::Job(JobEvent::about_worker(Stage::GivenBack, detail)));
        }
        served
    }
}

/// Ends the server when the thread that owns this ends, in whatever way: notifications
/// that nobody works on are not to be answered.
struct EndWithThread {
    handle: Handle,
    /// Closes its channel when it is dropped.
    ended: Option<Sender<()>>,
}

impl Drop for EndWithThread {
    fn drop(&mut self) {
        // First, so that the server finds the channel closed when it returns.
        drop(self.ended.take());
        self.handle.stop();
    }
}
