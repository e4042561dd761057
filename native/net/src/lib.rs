//! The TLS, proxy and URL policy that all HTTP clients of zstn share.
//!
//! zstn has two HTTP clients: one that blocks, for files, and an asynchronous one
//! for object stores and the gateway. This crate makes no request itself. It
//! decides for both
//!
//! - which certificates they trust ([`tls`]),
//! - which proxy a request goes through ([`proxy`]),
//! - which bytes an address becomes on the wire ([`target`]),
//! - how an address is shown to people ([`shown`]).

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod proxy;
pub mod shown;
pub mod target;
pub mod tls;
