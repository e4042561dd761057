//! `zstn serve`: its answers, access rules and memory use.

pub mod client;
mod command;
mod conditions;
mod connections;
mod folders;
mod links;
mod origins;
mod unpacked;
#[cfg(unix)]
mod view;
