//! `zstn serve`: its answers, its access rules and its memory.

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
