//! Files of every format: golden vectors, files written by this project, and files that
//! break a rule.

mod compressed_tensors;
mod delta;
mod delta_tensors;
mod digests;
mod dimensions;
mod extensions;
mod gauss;
mod header_copy;
mod incremental;
mod integrity;
mod names;
mod oracle;
mod released;
mod rules;
mod sketch;
mod statistics;
mod vectors;
mod ztensor;
