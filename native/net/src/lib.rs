//! The HTTP client of zstn: connections, TLS, proxies, retries and URLs.
//!
//! Every request that zstn sends goes through this crate: to web servers, to hubs, to
//! object stores, and from the gateway to its upstream. It determines
//!
//! - how a URL appears in messages ([`shown`]), and in those of other libraries
//!   ([`cause`]),
//! - how a URL is encoded in a request ([`target`]),
//! - which certificates are trusted (`tls`),
//! - which proxy a request takes (`proxy`),
//! - how connections are made and why a request failed (`client`, `upload`),
//! - how long a client waits between attempts (`retry`),
//! - which threads wait for the network (`runtime`).
//!
//! The modules without a link need the feature `client`.

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod cause;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "client")]
pub mod proxy;
#[cfg(feature = "client")]
pub mod retry;
#[cfg(feature = "runtime")]
pub mod runtime;
pub mod shown;
pub mod target;
#[cfg(feature = "client")]
pub mod tls;
#[cfg(feature = "client")]
pub mod upload;
