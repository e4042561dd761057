//! Metrics of the gateway in the Prometheus format.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// The route under which a request is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(super) enum Route {
    /// A file that is restored from a packed one.
    Restored,
    /// A file as the upstream has it.
    File,
    /// A description of a repository, or a list of its files.
    List,
    /// Any other request that is passed to the upstream.
    Other,
    /// Health check and metrics of the gateway itself.
    Own,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    route: Route,
    status: u16,
}

/// The metrics of one gateway.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    sent_bytes: Family<RouteLabel, Counter>,
    seconds: Histogram,
    pub(super) upstream_bytes: Counter,
    pub(super) upstream_cache_bytes: Gauge,
    pub(super) opened_files: Counter,
    decoded_bytes: Gauge,
    connections: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabel {
    route: Route,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("zstn_gateway");
        let requests = Family::default();
        registry.register("requests", "Answered requests", requests.clone());
        let sent_bytes = Family::default();
        registry.register_with_unit(
            "sent",
            "Bytes of files in answers that have begun",
            Unit::Bytes,
            sent_bytes.clone(),
        );
        // 1 ms to 33 s.
        let seconds = Histogram::new(exponential_buckets(0.001, 2.0, 16));
        registry.register_with_unit(
            "answer",
            "Time until an answer began",
            Unit::Seconds,
            seconds.clone(),
        );
        let upstream_bytes: Counter<u64, AtomicU64> = Counter::default();
        registry.register_with_unit(
            "upstream",
            "Bytes of packed files fetched from the upstream",
            Unit::Bytes,
            upstream_bytes.clone(),
        );
        let upstream_cache_bytes = Gauge::default();
        registry.register_with_unit(
            "upstream_cache",
            "Bytes of packed files in memory",
            Unit::Bytes,
            upstream_cache_bytes.clone(),
        );
        let opened_files: Counter<u64, AtomicU64> = Counter::default();
        registry.register("opened_files", "Packed files opened", opened_files.clone());
        let decoded_bytes = Gauge::default();
        registry.register_with_unit(
            "decoded_cache",
            "Bytes of decoded tensors in memory",
            Unit::Bytes,
            decoded_bytes.clone(),
        );
        let connections = Gauge::default();
        registry.register("connections", "Open connections", connections.clone());
        Self {
            registry,
            requests,
            sent_bytes,
            seconds,
            upstream_bytes,
            upstream_cache_bytes,
            opened_files,
            decoded_bytes,
            connections,
        }
    }
}

impl Metrics {
    /// Counts an answered request. `file_bytes` is the number of bytes of a file in the
    /// answer.
    pub(super) fn count(&self, route: Route, status: u16, file_bytes: u64, seconds: f64) {
        self.requests.get_or_create(&Labels { route, status }).inc();
        if matches!(route, Route::Restored | Route::File) {
            let sent = self.sent_bytes.get_or_create(&RouteLabel { route });
            sent.inc_by(file_bytes);
        }
        self.seconds.observe(seconds);
    }

    /// Returns all metrics in the text format of Prometheus.
    pub(super) fn text(&self, connections: usize, decoded_bytes: u64) -> String {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.connections.set(number(connections as u64));
        self.decoded_bytes.set(number(decoded_bytes));
        let mut text = String::new();
        // Writing to memory does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
