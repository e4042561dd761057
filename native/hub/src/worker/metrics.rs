//! Metrics of the worker in the Prometheus format.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::Stage;

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
pub(super) struct Metrics {
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
    pub(super) fn count_request(&self, status: u16) {
        self.requests.get_or_create(&StatusLabel { status }).inc();
    }

    pub(super) fn count_stage(&self, stage: Stage) {
        let stage = stage.name();
        self.stages.get_or_create(&StageLabel { stage }).inc();
    }

    pub(super) fn count_packed(&self, original_bytes: u64, packed_bytes: u64) {
        self.original_bytes.inc_by(original_bytes);
        self.packed_bytes.inc_by(packed_bytes);
    }

    /// Returns all metrics in the text format of Prometheus.
    pub(super) fn text(&self, queued: usize) -> String {
        self.queued.set(i64::try_from(queued).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing to memory does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
