//! Checkpoints from one format to another.

mod folders;
mod gauss;
mod model;
mod pairs;
mod refusals;
mod words;
