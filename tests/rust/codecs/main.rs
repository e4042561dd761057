//! Frames and the codecs inside them: encoded data decode to the same bytes with both
//! engines, and damage is refused.

mod choice;
mod choice_samples;
mod decoders;
mod difference;
mod families;
mod lattice;
mod literals;
mod low_rank;
mod pieces;
mod pure;
mod rans;
mod sequences;
