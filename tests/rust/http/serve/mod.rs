//! `zstn serve`: what it answers, to whom, and what it holds meanwhile.

mod client;
mod command;
mod conditions;
mod connections;
mod folders;
mod links;
mod origins;
mod unpacked;
