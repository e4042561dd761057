//! Conversions of checkpoints between formats.

mod folders;
mod gauss;
mod model;
mod pairs;
mod refusals;
mod words;
