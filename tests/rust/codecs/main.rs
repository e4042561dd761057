//! Frames and the codecs inside them: what is written decodes to the same
//! bytes with both engines, and damage is refused.

mod choice;
mod decoders;
mod families;
mod literals;
mod pieces;
mod pure;
mod rans;
mod sequences;
