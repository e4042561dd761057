//! TLS, proxies and URLs: the rules that all HTTP clients of zstn share.
//!
//! zstn has two HTTP clients: a blocking one for files, and an asynchronous one for
//! object stores and the gateway. This crate makes no requests itself. For both
//! clients, it determines
//!
//! - which certificates they trust ([`tls`]),
//! - which proxy they use ([`proxy`]),
//! - how a URL is encoded in a request ([`target`]),
//! - how a URL appears in messages ([`shown`]), and in those of other libraries
//!   ([`cause`]).

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod cause;
pub mod proxy;
pub mod shown;
pub mod target;
pub mod tls;
