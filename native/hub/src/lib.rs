//! Tools for model hubs that store packed checkpoints.
//!
//! - [`gateway`] serves the originals of the packed files of a hub or a folder, for
//!   clients that know nothing of zstn.
//! - [`worker`] packs the files that are pushed to a hub, or that a plan lists.
//! - [`manifest`] reads plans of work on many files, [`work`] does the work on one of
//!   them, and [`proof`] decides whether an original may be removed.
//! - [`lfs`] is the transfer agent and the filter of git-lfs.
//! - [`hub`] is the client of a hub's API. Files of a hub are read by `hf://`
//!   addresses ([`zstn::Location`]), without it.

// Printing to a closed pipe panics, so only the command line prints.
#![deny(clippy::print_stderr, clippy::print_stdout)]

#[cfg(feature = "gateway")]
pub mod gateway;
pub mod hub;
#[cfg(feature = "lfs")]
pub mod lfs;
mod lock;
pub mod manifest;
pub mod proof;
pub mod work;
#[cfg(feature = "worker")]
pub mod worker;
